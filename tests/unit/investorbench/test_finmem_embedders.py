"""Embeddings by sentence-transformers: named by the hash of local files, and refused in one line where these are not here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import UsageError
from ktdeval_investorbench.embedding import weights_hash
from ktdeval_investorbench.finmem import FinmemAgent, make_embedder
from ktdeval_investorbench.params import FinmemParams
from tables import on_each_row


class Package:
    """`sentence_transformers` as far as it is used: vectors of a text's letters, and of how many texts came with it."""

    def __init__(self, folder: str, **options: Any) -> None:
        assert options == {
            "device": "cpu", "trust_remote_code": False, "local_files_only": True, "model_kwargs": {"use_safetensors": True},
        }  # fmt: skip
        if "broken" in Path(folder, "model.safetensors").read_text():
            raise ValueError("not a tensor\nmore")

    def encode(self, texts: list[str], show_progress_bar: bool) -> Any:
        assert not show_progress_bar
        return np.array([[float(len(text)), text.count("a"), len(texts)] for text in texts])


def made(embedding: str, weights: str) -> Any:
    return make_embedder(FinmemParams(embedding=embedding, weights=weights))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, and the package."""
    monkeypatch.setenv("KTDEVAL_EMBEDDINGS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Package))  # type: ignore[arg-type]
    for name, text in (("modules.json", "[]"), ("model.safetensors", tmp_path.name), ("README.md", "x"), (".cache/a.json", "{}")):
        path = tmp_path / "org" / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_vectors_have_unit_length_and_do_not_depend_on_what_else_is_embedded(home: Path) -> None:
    embed = made("sentence:org/small", weights_hash(home / "org" / "small"))
    vectors = embed(["aab", "", "b"])
    assert vectors.shape == (3, 3)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert vectors[0] == pytest.approx(np.array([3, 2, 1]) / 14**0.5)
    assert (embed(["b"])[0] == vectors[2]).all()
    assert len(embed([])) == 0
    assert FinmemAgent(FinmemParams(embedding="sentence:org/small", weights=weights_hash(home / "org" / "small")))


def test_the_hash_is_that_of_the_files_that_are_read(home: Path) -> None:
    folder = home / "org" / "small"
    first = weights_hash(folder)
    (folder / "README.md").write_text("y")
    (folder / ".cache" / "a.json").write_text("[]")
    assert weights_hash(folder) == first
    (folder / "modules.json").write_text("[1]")
    assert weights_hash(folder) != first
    (folder / "pytorch_model.bin").write_text("")  # beside safe weights it is not read
    weights_hash(folder)
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_text("")
    with pytest.raises(UsageError, match=r"pytorch_model\.bin: pickled weights are not read"):
        weights_hash(folder)


@on_each_row
def test_another_model_than_the_runs_is_refused(home: Path, embedding: str, weights: str, told: str) -> None:
    found = weights_hash(home / "org" / "small")
    with pytest.raises(UsageError, match=told.replace("HASH", found)):
        made(embedding, weights.replace("HASH", found))


def test_a_missing_package_and_a_file_that_is_no_model_are_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "org" / "small" / "model.safetensors").write_text("broken")
    found = weights_hash(home / "org" / "small")
    with pytest.raises(UsageError, match=r"can't be loaded: not a tensor$"):
        made("sentence:org/small", found)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError, match=r"pip install 'ktdeval\[sentence-transformers\]'"):
        made("sentence:org/small", found)

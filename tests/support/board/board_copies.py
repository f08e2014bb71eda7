"""Large boards from small ones: each entrant again under other names and keys, in the time of writing
files.

A copy's documents agree with each other as those of the first do; its figures are the same, but for
their ties.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.values import loads_strict, sha256_hex
from ktdeval_board.layout import CARDS, BoardFolder, CardFiles


def copy_entrants(board: Path, cards: int) -> None:
    """Copy the entrants of a forged board, in turns, until it has that many cards of entrants."""
    folder = BoardFolder(board)
    entrants = [
        files
        for files in folder.list_cards()
        if not files.card.relative_to(board / CARDS).parts[1].startswith("builtin--")
    ]
    for number in range(len(entrants), cards):
        turn, index = divmod(number, len(entrants))
        _copy(folder, entrants[index], turn)


def _copy(folder: BoardFolder, files: CardFiles, turn: int) -> None:
    """Copy the files of one card under names and keys of their own."""
    card = files.card.read_text(encoding="utf-8")
    facts = loads_strict(card)
    model = facts["model"]["name"]
    key = facts["mask_key"]
    renamed = {model: f"{model}-{turn}", key: sha256_hex(f"{key}{turn}")[:32]}
    copied = _with_names(card, renamed)
    card_id = sha256_hex(copied)
    names = {**renamed, files.card_id: card_id}

    task, _, agent = files.card.relative_to(folder.path / CARDS).parts[:3]
    new = folder.card_files(task, renamed[model], agent, card_id)
    new.card.parent.mkdir(parents=True, exist_ok=True)
    new.card.write_text(copied, encoding="utf-8")
    others = {
        files.submission: new.submission,
        files.records: new.records,
        folder.verdict(files.card_id): folder.verdict(card_id),
        folder.series(files.card_id): folder.series(card_id),
        folder.decisions(files.card_id): folder.decisions(card_id),
    }
    for path, target in others.items():
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            target.write_text(_with_names(text, names), encoding="utf-8")


def _with_names(text: str, names: dict[str, str]) -> str:
    """Return a JSON text in which whole texts are replaced."""
    for name, other in names.items():
        text = text.replace(f'"{name}"', f'"{other}"')

    return text

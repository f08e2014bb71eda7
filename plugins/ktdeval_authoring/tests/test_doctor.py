"""`ktdeval doctor` says what is there, what is absent and what is broken, and shows no key."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from ktdeval.cli.main import main
from ktdeval.values import install_command
from ktdeval_authoring import doctor
from ktdeval_authoring.doctor import Check, checks, is_broken
from support.advertised import advertise
from support.paths import REPOSITORY


def cutoff_days() -> Iterator[date]:
    """Days on which cutoffs were looked up, as the lists state them."""
    for name in ("cutoffs.csv", "reported_cutoffs.csv"):
        with (REPOSITORY / "ktdeval" / "facts" / name).open(newline="") as file:
            for row in csv.DictReader(file):
                if row["checked"]:
                    yield date.fromisoformat(row["checked"])


PRICES = yaml.safe_load((REPOSITORY / "ktdeval" / "facts" / "prices.yaml").read_text())
LOOKED_UP = PRICES["package"]["looked_up"]
PRICED_VERSION, PRICED_DAY = max(LOOKED_UP.items(), key=lambda item: item[1])
PRICED = date.fromisoformat(PRICED_DAY)
CUTOFFS = sorted(cutoff_days())
# no day of the tables lies behind it, whatever is added to them
TODAY = max(PRICED, CUTOFFS[-1]) + timedelta(days=10)
SECRET = "sk-very-secret-0123456789"


def by_name(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


@pytest.mark.slow
def test_a_whole_installation_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0

    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert found["python"]["state"] == "ok"
    assert {"ktdeval", "extra openai", "cache", "disk", "terminal", "plugins", "browser"} < set(
        found
    )


@pytest.mark.slow
def test_absent_extras_and_keys_are_rows_on_request_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package != "ray")

    assert main(["doctor"]) == 0
    short = capsys.readouterr().out
    assert main(["doctor", "--all"]) == 0
    whole = capsys.readouterr().out

    assert "key OPENAI_API_KEY" not in short
    assert "extras that are not installed: ray\n" in short
    assert "key OPENAI_API_KEY" in whole
    assert "extra ray" in whole


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_key_is_never_shown(
    form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    main(["doctor", *form])
    done = capsys.readouterr()
    assert SECRET[:12] not in done.out + done.err


@pytest.mark.slow
def test_a_key_is_seen_by_its_name() -> None:
    found = by_name(checks({"OPENAI_API_KEY": SECRET, "GEMINI_API_KEY": ""}, TODAY))
    assert (found["key OPENAI_API_KEY"].state, found["key OPENAI_API_KEY"].detail) == ("ok", "seen")
    assert found["key GEMINI_API_KEY"].state == "broken"
    assert found["key ANTHROPIC_API_KEY"].state == "absent"


def test_an_extra_lacks_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package != "anthropic")
    found = by_name(checks({}, TODAY))

    assert (found["extra anthropic"].state, found["extra anthropic"].detail) == (
        "absent",
        "lacks anthropic",
    )
    assert found["extra anthropic"].fix == install_command("anthropic")
    assert found["extra openai"].state == "ok"


@pytest.mark.slow
def test_a_plugin_that_fails_to_load_is_broken_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advertise(tmp_path, "bad", "bad = bad_manifest", monkeypatch, bad_manifest="x = 1\n1 / 0\n")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "ZeroDivisionError: division by zero (bad_manifest.py:2)" in out


def test_a_plugin_that_misspells_a_hook_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def ktdeval_modles(): return []\n"
    advertise(tmp_path, "bad", "bad = misspelt_manifest", monkeypatch, misspelt_manifest=code)
    plugins = [check for check in doctor._plugins() if check.state == "broken"]
    assert "there is no hook 'ktdeval_modles'" in plugins[0].detail


def test_a_cache_that_can_not_be_written_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    check = doctor._folder("cache", file / "below")

    assert (check.state, "Not a directory" in check.detail) == ("broken", True)
    assert is_broken([check])


def test_a_full_disk_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 60)
    check = doctor._folder("disk", tmp_path)
    assert (check.state, check.fix) == ("broken", "free space, or `ktdeval files prune`")


@pytest.mark.exhaustive
def test_the_age_of_prices_and_cutoffs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed_version", lambda: PRICED_VERSION)
    found = by_name(checks({}, TODAY))
    first, last = CUTOFFS[0], CUTOFFS[-1]

    assert found["prices"].detail == (
        f"genai-prices {PRICED_VERSION}, looked up {PRICED}, {age(PRICED)} days ago"
    )
    assert found["cutoffs"].detail == (
        f"looked up {first} to {last}, {age(first)} to {age(last)} days ago"
    )
    assert found["cutoffs"].fix == ""

    of_the_day = by_name(checks({}, PRICED))
    assert of_the_day["prices"].fix == ""

    later = by_name(checks({}, PRICED + timedelta(days=400)))
    assert later["prices"].detail.endswith(" 400 days ago")
    assert later["prices"].fix == "pip install genai-prices --upgrade: prices change"

    later = by_name(checks({}, last + timedelta(days=400)))
    assert later["cutoffs"].fix == "install a newer ktdeval, or give --knowledge-cutoff"


def age(day: date) -> str:
    return f"{(TODAY - day).days:,}"


@pytest.mark.exhaustive
def test_a_version_of_the_price_package_that_nobody_looked_up_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "installed_version", lambda: "9.0")
    detail = by_name(checks({}, TODAY))["prices"].detail

    known = ", ".join(f"{version} of {day}" for version, day in LOOKED_UP.items())
    assert detail == f"genai-prices 9.0, with an unknown date (known: {known})"

    monkeypatch.setattr(doctor, "installed_version", lambda: None)
    absent = by_name(checks({}, TODAY))["prices"]

    assert (absent.state, absent.fix) == ("absent", "pip install genai-prices")

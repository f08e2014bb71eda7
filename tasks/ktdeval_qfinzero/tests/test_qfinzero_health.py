"""Health of datasets: service answers, coverage by day and symbol, and reported defects."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ktdeval_qfinzero.access.pages.health import Health, coverage_of, data_health
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, Workspaces
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.data.rows import MomentSpan
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import DAY, day_start


def days(*texts: str) -> np.ndarray:
    return np.array(texts, "datetime64[D]")


def test_coverage_counts_instruments_by_session_and_gaps_by_symbol() -> None:
    # New York: sessions from Thursday the 2nd to Friday the 10th without the 9th (a day of mourning)
    data = {
        "A": days("2025-01-02", "2025-01-03", "2025-01-08", "2025-01-10"),
        "B": days("2025-01-03", "2025-01-04", "2025-01-06", "2025-01-08"),  # the 4th: a Saturday
    }

    coverage = coverage_of("stock", "XNYS", data)

    assert [(str(each.day), each.have, each.due) for each in coverage.days] == [
        ("2025-01-02", 1, 1), ("2025-01-03", 2, 2), ("2025-01-04", 1, 2), ("2025-01-06", 1, 2),
        ("2025-01-07", 0, 2), ("2025-01-08", 2, 2), ("2025-01-10", 1, 1),
    ]  # fmt: skip
    assert [str(each.day) for each in coverage.days if not each.is_session] == ["2025-01-04"]
    assert coverage.complete == 7 / 10
    assert [(each.symbol, each.missing) for each in coverage.symbols] == [("A", 2), ("B", 1)]
    assert coverage.symbols[1].first == date(2025, 1, 3)
    assert coverage.behind > 0


def test_a_kind_without_a_session_has_no_share() -> None:
    assert coverage_of("stock", "XNYS", {"A": days("2025-01-04")}).complete is None


def test_days_are_those_of_the_bars_known_by_then(tiny: Path) -> None:
    dataset = open_dataset(tiny)
    info = dataset.info
    late = day_start(info.last_day) + DAY
    seen = 0
    for as_of_ns in (late, info.default_as_of_ns, day_start(info.first_day) + DAY):
        view = DatasetView(dataset, as_of_ns)
        days = {**view.days_by_symbol("stock"), **view.days_by_symbol("crypto")}
        for row in view.symbols():
            bars = view.bars(row.asset_class, row.symbol, "day", MomentSpan(0, as_of_ns))
            expected = bars.start_ns.astype("datetime64[ns]").astype("datetime64[D]")
            assert days.pop(row.symbol, expected[:0]).tolist() == expected.tolist()
            seen += len(bars)

        assert days == {}

    assert seen > 0


def test_datasets_are_described_whatever_state_they_are_in(tiny: Path, tmp_path: Path) -> None:
    workspaces = Workspaces(open_dataset(tiny), WorkspaceLimits(), lambda: 0.0)
    settings = PageSettings(data=tiny, watched=(tmp_path / "absent", tiny))
    health = Health(workspaces, settings)

    served, absent = health.report()

    assert [service.problem for service in served.services] == ["", "", ""]
    assert all(service.latency_ms > 0 for service in served.services)
    assert "stock" in {group.name for group in served.coverage}
    assert health.check("0") == []
    assert served.problems == ()
    assert "not a dataset" in absent.problems[0]

    dataset = open_dataset(tiny)
    (tiny / "market.duckdb").write_bytes(b"torn" * 1_000)

    torn = data_health(tiny, dataset, None)

    assert torn.problems
    assert torn.coverage == ()

    (tiny / "manifest.json").write_text("{")

    assert "manifest.json" in health.check("0")[0]

    with pytest.raises(ServiceError, match="from 0 to 1"):
        health.check("2")

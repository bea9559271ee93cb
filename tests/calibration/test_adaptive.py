"""Intervals that adapt: how often labels of earlier windows missed theirs moves how wide the next one's are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.metrics.residuals import BINS, SHIFT, ResidualTally, end_of, sparse
from xpsql.platform.training.profiles.adaptive import Known, adapted, unshifted
from xpsql.platform.training.profiles.intervals import known_of

OLD, NEW, WINDOWS = 20_000, 1_000, 20


def tally_of(residuals: np.ndarray, signed: bool = False) -> ResidualTally:
    sizes = (np.abs(residuals).astype(np.float32).view(np.uint32) >> SHIFT).astype(np.int64)
    bins = np.where(residuals < 0, -1 - sizes, sizes) if signed else sizes
    counts = np.bincount(bins + BINS, minlength=2 * BINS)[None]
    return sparse(-1, np.arange(-BINS, BINS), counts, signed)


def coverages(scales: list[float], share: float, adapts: bool) -> list[float]:
    """Return the share of each window's labels that the interval covers which is known before it."""
    random = np.random.default_rng(0)
    known = unshifted(tally_of(random.normal(size=OLD)))
    found = []
    for scale in scales:
        residuals = scale * random.standard_normal(NEW)
        bound = known.bin(0, 0, 1 - share)
        assert bound is not None
        found.append(float((np.abs(residuals) <= end_of(bound)).mean()))
        known = adapted(tally_of(residuals), known)
        if not adapts:
            known = Known(known.tally, np.zeros_like(known.shifts))
    return found


@pytest.mark.parametrize("share", [0.8, 0.9, 0.93])
def test_after_a_shift_the_share_is_held_where_fixed_intervals_fail(share: float) -> None:
    """Errors grow by a fifth with each window, so that what is known is always of rows that were easier."""
    scales = [1.2**number for number in range(WINDOWS)]
    held, failed = (np.mean(coverages(scales, share, adapts)[3:]) for adapts in (True, False))
    assert held == pytest.approx(share, abs=0.02)
    assert failed < share - 0.06


def test_a_sudden_shift_is_made_good_within_a_few_small_windows() -> None:
    scales = [2.0] * 6
    held, failed = (np.mean(coverages(scales, 0.9, adapts)[2:]) for adapts in (True, False))
    assert held > 0.87 > failed + 0.03


def test_without_a_shift_nothing_is_lost() -> None:
    assert np.mean(coverages([1.0] * WINDOWS, 0.9, True)) == pytest.approx(0.9, abs=0.01)


def test_only_earlier_windows_count_and_few_rows_move_little() -> None:
    random = np.random.default_rng(0)
    before = unshifted(tally_of(random.normal(size=OLD)))
    assert not unshifted(before.tally).shifts.any()
    one = adapted(tally_of(np.array([100.0])), before)
    assert 0 < np.abs(one.shifts).max() < 0.01
    assert not before.shifts.any()


def test_each_side_of_a_quantile_adapts_by_itself() -> None:
    random = np.random.default_rng(0)
    before = unshifted(tally_of(random.normal(size=OLD), signed=True))
    late = random.normal(size=OLD)
    after = adapted(tally_of(np.where(late > 0, 3 * late, late), signed=True), before)
    low, high = after.shifts[0]
    assert (high < -0.01).sum() > 5
    assert np.abs(low).max() < 0.01


@lengthy
def test_continue_keeps_the_share_through_days_that_get_harder(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        found = []
        for day in range(9):
            rows = OLD if day == 0 else 4 * NEW
            x = random.integers(0, 5, rows)
            number = x + 1.3**day * random.standard_normal(rows)
            path = tmp_path / f"{day}.parquet"
            pq.write_table(pa.table({"x": x.astype(str), "number": number}), path)
            table = f"parquet.`{path}`"
            if day:
                bounds = f"SELECT * FROM ML.PREDICT(MODEL m, TABLE {table}, INTERVAL 0.9)"
                inside = "avg(IF(number BETWEEN predicted_number_low AND predicted_number_high, 1.0D, 0.0D))"
                found.append(session.sql(f"SELECT {inside} AS c FROM ({bounds})").arrow()["c"][0].as_py())
            learn = "CONTINUE MODEL m" if day else "TRAIN MODEL m USING linear_regression LABEL number"
            session.sql(f"{learn} AS SELECT * FROM {table}")
        known = known_of(session.models.version("m"))
        assert known is not None
        assert known.shifts[0, 0].min() < -0.02
        assert np.mean(found[4:]) == pytest.approx(0.9, abs=0.025)
        assert found[0] < 0.86

"""ML.AB_TEST: what scipy and closed formulas give, and what a covariate saves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.notes import Notes
from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.decisions.ab_test import Arm, ArmMoments, compared
from xpsql.platform.errors import DataError, StatementError

UNITS = 3000


@pytest.fixture(scope="module")
def users() -> dict[str, np.ndarray]:
    """Units of three arms, with what they spent before."""
    random = np.random.default_rng(1)
    before = random.gamma(2, 3, UNITS)
    arm = np.array(["a", "b", "c"])[random.integers(0, 3, UNITS)]
    sessions = random.poisson(3, UNITS) + 1.0
    spent = before + random.normal(0, 1.5, UNITS) + 0.4 * (arm == "b") + 0.3 * sessions
    return {"arm": arm, "user": np.arange(UNITS), "spent": spent, "sessions": sessions, "before": before}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, users: dict[str, np.ndarray]) -> Path:
    """The units as rows, two a unit, of which each has half."""
    twice = {name: np.repeat(values, 2) for name, values in users.items()}
    share = np.tile([0.25, 0.75], UNITS)
    table = pa.table({**twice, "spent": twice["spent"] * share, "sessions": twice["sessions"] * share})
    found = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table.take(np.random.default_rng(2).permutation(2 * UNITS)), found)
    return found


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=Notes()) as opened:
        yield opened


def arms_of(session: xpsql.Session, rows: str, arguments: str) -> dict[str, dict[str, Any]]:  # noqa: F811
    text = f"SELECT * FROM ML.AB_TEST({rows}, VARIANT arm, UNIT user, {arguments}, CONTROL 'a')"
    return {row["variant"]: row for row in session.sql(text).arrow().to_pylist()}


def parts(users: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {arm: users[name][users["arm"] == arm] for arm in "abc"}


@costly_after_first
def test_means_are_compared_as_scipy_does_on_both_engines(
    session: xpsql.Session,  # noqa: F811
    path: Path,
    users: dict[str, np.ndarray],
) -> None:
    found = arms_of(session, f"TABLE parquet.`{path}`", "METRIC spent")
    assert list(found) == ["a", "b", "c"]
    spent = parts(users, "spent")
    for arm in "bc":
        wanted = scipy.stats.ttest_ind(spent[arm], spent["a"], equal_var=False)
        row, (low, high) = found[arm], wanted.confidence_interval()
        assert (row["lift"], row["low"], row["high"]) == pytest.approx((spent[arm].mean() - spent["a"].mean(), low, high))
        assert row["p_value"] == pytest.approx(wanted.pvalue)
        assert row["units"] == len(spent[arm])
        assert row["mean"] == pytest.approx(spent[arm].mean())
        assert row["variance_reduction"] == pytest.approx(0, abs=1e-12)
    sizes = [len(values) for values in spent.values()]
    assert [row["srm_p"] for row in found.values()] == pytest.approx([scipy.stats.chisquare(sizes).pvalue] * 3)
    assert found["a"]["lift"] is None


def test_a_covariate_takes_out_what_it_explains(embedded: xpsql.Session, path: Path, users: dict[str, np.ndarray]) -> None:
    found = arms_of(embedded, f"TABLE parquet.`{path}`", "METRIC spent, COVARIATE before")
    spent, before = parts(users, "spent"), parts(users, "before")
    centred = {arm: (spent[arm] - spent[arm].mean(), before[arm] - before[arm].mean()) for arm in "abc"}
    theta = sum((y * x).sum() for y, x in centred.values()) / sum((x**2).sum() for _, x in centred.values())
    adjusted = {arm: spent[arm] - theta * (before[arm] - users["before"].mean()) for arm in "abc"}
    for arm in "bc":
        wanted = scipy.stats.ttest_ind(adjusted[arm], adjusted["a"], equal_var=False)
        row, (low, high) = found[arm], wanted.confidence_interval()
        assert (row["low"], row["high"], row["p_value"]) == pytest.approx((low, high, wanted.pvalue))
        assert row["lift_relative"] == pytest.approx(row["lift"] / adjusted["a"].mean())
        assert row["variance_reduction"] > 0.8
        assert row["relative_low"] < row["lift_relative"] < row["relative_high"]
    assert found["b"]["low"] > 0  # 0.4, which the plain test does not find


def test_a_unit_without_covariate_counts_as_an_average_one(
    embedded: xpsql.Session, path: Path, users: dict[str, np.ndarray]
) -> None:
    less = f"(SELECT * EXCEPT (before), IF(user % 3 = 0, NULL, before) AS before FROM parquet.`{path}`)"
    known = users["user"] % 3 > 0
    mean = users["before"][known].mean()
    filled = f"(SELECT * EXCEPT (before), IF(user % 3 = 0, {mean}D, before) AS before FROM parquet.`{path}`)"
    with_nulls, with_means = (arms_of(embedded, rows, "METRIC spent, COVARIATE before") for rows in (less, filled))
    for arm in "abc":
        assert with_nulls[arm] == pytest.approx(with_means[arm])
    none = f"(SELECT * EXCEPT (before), CAST(NULL AS DOUBLE) AS before FROM parquet.`{path}`)"
    plain = arms_of(embedded, f"TABLE parquet.`{path}`", "METRIC spent")
    for arm, row in arms_of(embedded, none, "METRIC spent, COVARIATE before").items():
        assert row == pytest.approx(plain[arm])


def test_a_ratio_is_of_sums_with_the_error_of_the_delta_method(
    embedded: xpsql.Session, path: Path, users: dict[str, np.ndarray]
) -> None:
    found = arms_of(embedded, f"TABLE parquet.`{path}`", "METRIC spent / sessions")
    spent, sessions = parts(users, "spent"), parts(users, "sessions")
    ratio = {arm: spent[arm].sum() / sessions[arm].sum() for arm in "abc"}
    linear = {arm: (spent[arm] - ratio[arm] * sessions[arm]) / sessions[arm].mean() + ratio[arm] for arm in "abc"}
    for arm in "bc":
        wanted = scipy.stats.ttest_ind(linear[arm], linear["a"], equal_var=False)
        row, (low, high) = found[arm], wanted.confidence_interval()
        assert (row["mean"], row["lift"]) == pytest.approx((ratio[arm], ratio[arm] - ratio["a"]))
        assert (row["low"], row["high"], row["p_value"]) == pytest.approx((low, high, wanted.pvalue))


def arm_of(y: np.ndarray, x: np.ndarray) -> Arm:
    yy, xy, xx = np.cov(y, x)[[0, 0, 1], [0, 1, 1]]
    return Arm.of(ArmMoments(len(y), y.mean(), 1.0, x.mean(), yy, 0.0, xx, 0.0, xy, 0.0))


@lengthy
def test_without_an_effect_p_values_are_uniform_and_with_one_intervals_cover_it() -> None:
    random, trials, n = np.random.default_rng(4), 2000, 120
    p_values, covered, relative = [], 0, 0
    for _ in range(trials):
        x = random.gamma(2, 1, (2, n))
        y = x + random.normal(0, 0.5, (2, n))
        same = compared({"a": arm_of(y[0], x[0]), "b": arm_of(y[1], x[1])}, "a")[1]
        p_values.append(same["p_value"])
        more = compared({"a": arm_of(y[0], x[0]), "b": arm_of(y[1] + 0.2, x[1])}, "a")[1]
        covered += more["low"] <= 0.2 <= more["high"]
        relative += more["relative_low"] <= 0.1 <= more["relative_high"]
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.01
    assert 0.935 < covered / trials < 0.965
    assert 0.935 < relative / trials < 0.965


def test_a_control_whose_mean_may_be_zero_has_no_relative_interval() -> None:
    spread = np.tile([-1.0, 1.0], 25)
    arms = {"a": arm_of(spread + 0.05, 0 * spread), "b": arm_of(spread + 0.2, 0 * spread)}
    row = compared(arms, "a")[1]
    assert row["relative_low"] is row["relative_high"] is None
    assert row["low"] < row["lift"] < row["high"]


def test_arms_of_other_sizes_than_planned_are_told_first(embedded: xpsql.Session, path: Path) -> None:
    assert isinstance(embedded.reporter, Notes)
    lost = f"(SELECT * FROM parquet.`{path}` WHERE arm <> 'b' OR user % 3 > 0)"
    embedded.reporter.notes.clear()
    found = arms_of(embedded, lost, "METRIC spent")
    assert found["b"]["srm_p"] < 1e-6
    assert embedded.reporter.notes[0].startswith("The arms do not have the sizes that were planned (a ")
    assert "one look" in embedded.reporter.notes[1]
    embedded.reporter.notes.clear()
    planned = arms_of(embedded, lost, "METRIC spent, SPLIT (a = 3, b = 2, C = 3)")
    assert planned["b"]["srm_p"] > 0.01
    assert len(embedded.reporter.notes) == 1


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ("* EXCEPT (arm), IF(spent < 2, 'a', 'b') AS arm", "METRIC spent", "units are in several arms, or in none"),
        ("* EXCEPT (arm), IF(user < 9, NULL, arm) AS arm", "METRIC spent", "9 units are in several arms, or in none"),
        ("* EXCEPT (arm), 'd' AS arm", "METRIC spent", "CONTROL names 'a', which is not an arm. There are 'd'"),
        ("* EXCEPT (arm), IF(user = 7, 'b', 'a') AS arm", "METRIC spent", "Arm 'b' has 1 unit"),
        ("* EXCEPT (spent), CAST('NaN' AS DOUBLE) AS spent", "METRIC spent", "not a finite number"),
        ("*, 0 AS nothing", "METRIC spent / nothing", "a denominator of 0"),
        ("*", "METRIC spent, SPLIT (a = 1, b = 1)", "SPLIT plans the arms a, b; there are a, b, c"),
        ("* EXCEPT (arm), 'a' AS arm", "METRIC spent", "two arms or more, and arm is 'a' in all rows. Name the column"),
    ],
)
def test_rows_that_are_no_experiment_are_refused(
    embedded: xpsql.Session, path: Path, rows: str, arguments: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        arms_of(embedded, f"(SELECT {rows} FROM parquet.`{path}`)", arguments)


def test_an_experiment_without_rows_is_refused(embedded: xpsql.Session, path: Path) -> None:
    with pytest.raises(DataError, match="needs rows of an experiment, and the query returns none"):
        arms_of(embedded, f"(SELECT * FROM parquet.`{path}` WHERE user < 0)", "METRIC spent")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TABLE parquet.`{}`, VARIANT arm, UNIT user, METRIC spend, CONTROL 'a'", "no column spend. Did you mean spent"),
        (
            "TABLE parquet.`{}`, VARIANT arm, UNIT user, METRIC arm, CONTROL 'a'",
            "METRIC expects a number or boolean; arm is string. CAST it in the query",
        ),
        (
            "TABLE parquet.`{}`, VARIANT arm, UNIT user, METRIC spent, COVARIATE arm, CONTROL 'a'",
            "COVARIATE expects a number or boolean; arm is string",
        ),
        ("TABLE parquet.`{}`, VARIANT arm, UNIT user, CONTROL 'a'", "Expected ',' and METRIC, got"),
        ("TABLE parquet.`{}`, VARIANTS arm, UNIT user", "Expected a keyword, got 'VARIANTS'. Did you mean VARIANT"),
        (
            "TABLE parquet.`{}`, VARIANT arm, UNIT user, METRIC spent, CONTROL 'a', SPLIT (a = 'x')",
            "SPLIT expects the planned share",
        ),
        ("MODEL m, TABLE parquet.`{}`", "Expected TABLE name or"),
    ],
)
def test_calls_that_lack_something_are_refused(embedded: xpsql.Session, path: Path, call: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        embedded.sql(f"SELECT * FROM ML.AB_TEST({call.format(path)})")

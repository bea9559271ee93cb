"""validation.gain_low in RELEASE WHEN: a version is served that would earn more than what decided, and others are held."""

from __future__ import annotations

from pathlib import Path

import pytest

import xpsql
from tests.cases import lengthy, slow_elsewhere
from tests.decisions.test_off_policy import write_log
from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.errors import DataError, StatementError, TrainingError

NAMED = "request AS served_request, chosen AS served_chosen, propensity AS served_propensity"
TRAIN = """
TRAIN MODEL ctr USING xftrl LABEL click CROSS (user * ad)
VALIDATE ON (SELECT user, ad, coalesce(click, 0) AS click, {columns} FROM parquet.`{path}` WHERE {held})
WITH (workers = 1, passes = 3) RELEASE WHEN {condition} AS
SELECT user, ad, {click} AS click FROM parquet.`{path}` WHERE chosen AND request % 3 = 0
"""


def train(path: Path, condition: str, **more: str) -> str:
    usual = {"columns": NAMED, "held": "request % 3 > 0", "click": "click", **more}
    return TRAIN.format(path=path, condition=condition, **usual)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("log") / "log.parquet"
    write_log(found)
    return found


@slow_elsewhere
def test_the_gate_knows_what_off_policy_says_on_both_engines(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    session.sql(train(path, "validation.gain_low > 0.1"))
    judged = (
        session.sql(
            f"SELECT gain, gain_low, gain_high FROM ML.OFF_POLICY(MODEL ctr, (SELECT user, ad, click, {NAMED} FROM "
            f"parquet.`{path}` WHERE request % 3 > 0), WITH (overlap = true)) WHERE estimator = 'dr'"
        )
        .arrow()
        .to_pylist()[0]
    )
    known = session.models.find("ctr", None).manifest.validation
    for name, value in judged.items():
        assert known[name] == pytest.approx(value, rel=1e-3, abs=1e-4)


@slow_elsewhere
def test_a_version_that_would_earn_no_more_is_held(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    with pytest.raises(TrainingError, match=r"validation.gain_low > 0 is false, validation.gain_low is -0"):
        session.sql(train(path, "validation.gain_low > 0", click="1 - click"))


@slow_elsewhere
def test_few_decisions_hold_it_and_say_so(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    with pytest.raises(TrainingError, match=r"gain_low is not known; the weights .* as much as \d+ rows, and 100 at least"):
        session.sql(train(path, "validation.gain_low > 0", held="request < 30"))


@lengthy
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": NAMED.replace("served_chosen", "shown")}, "returns no column served_chosen"),
        ({"columns": NAMED.replace("chosen AS", "false AS")}, "served_chosen must be true in one row of each request"),
        ({"columns": NAMED.replace("propensity AS", "0.0 AS")}, "served_propensity must be above 0"),
        ({"columns": NAMED.replace("propensity AS", "'x' AS")}, "a number or boolean; served_propensity is string. CAST it"),
    ],
)
def test_rows_that_are_no_decisions_are_refused_before_learning(
    session: xpsql.Session,  # noqa: F811
    path: Path,
    change: dict[str, str],
    message: str,
) -> None:
    with pytest.raises((StatementError, DataError), match=message):
        session.sql(train(path, "validation.gain_low > 0", **change))
    assert all(not version.manifest.learned.examples for version in session.models.present("ctr"))


def test_a_gain_needs_a_query_of_decisions(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    train = "TRAIN MODEL m USING xftrl LABEL click VALIDATE ON 0.1 RELEASE WHEN validation.gain > 0"
    with pytest.raises(StatementError, match=r"names validation.gain, .* Give them: VALIDATE ON \(query\)"):
        session.sql(f"{train} AS SELECT * FROM parquet.`{path}`")

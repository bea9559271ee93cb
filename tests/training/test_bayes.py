"""TUNE METHOD bayes: trials are drawn near those that were good, by optuna."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly, lengthy, slow_elsewhere
from tests.training.log import log, session, write  # noqa: F401  a fixture
from xpsql.platform.engines.spark_sql.hparams import HparamCandidates, HparamRange
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.clauses.tune import Tune
from xpsql.platform.training.plan import Use
from xpsql.platform.training.tuning.bayes import Search
from xpsql.platform.training.tuning.space import Candidate, Dimension, chosen

pytest.importorskip("optuna")

SPACE = {
    "rate": Dimension(HparamRange(0.001, 10), whole=False),
    "size": Dimension(HparamRange(1, 64), whole=True),
    "kind": Dimension(HparamCandidates(("a", "b", (3, 4))), whole=False),
}


def made(point: dict[str, Any]) -> Candidate:
    return Candidate(point, Use("xftrl", {}, None), "", default=False, left_out=())


def loss(point: dict[str, Any]) -> float:
    """The least is 0, at a rate of 0.1 and 8, of kind b."""
    return float(abs(np.log10(point["rate"]) + 1) + abs(np.log2(point["size"]) - 3) + (point["kind"] != "b"))


def searched(metric: str, sign: int, seed: int, at_once: int) -> list[dict[str, Any]]:
    tune = Tune(metric, 40, "bayes")
    search = Search(tune, SPACE, made, seed)
    points = chosen(tune, SPACE, seed)[: search.first]
    search.begin(points, [sign * loss(point) for point in points])
    while len(points) < tune.trials:
        asked = [one.options for one in search.ask(min(at_once, tune.trials - len(points)))]
        search.tell([sign * loss(point) for point in asked])
        points += asked
    return points


@lengthy
@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize(("metric", "sign"), [("logloss", 1), ("auc", -1)])
def test_what_is_drawn_late_is_better_than_what_fills_the_space_evenly(metric: str, sign: int, at_once: int) -> None:
    late, even = [], []
    for seed in range(5):
        points = searched(metric, sign, seed, at_once)
        late += [loss(point) for point in points[-15:]]
        even += [loss(point) for point in chosen(Tune(metric, 40, "random"), SPACE, seed)]
        assert all(point not in points[:n] for n, point in enumerate(points))
        assert all(0.001 <= point["rate"] <= 10 and point["size"] in range(1, 65) for point in points)
    assert np.mean(late) < 0.6 * np.mean(even)


def test_the_same_seed_draws_the_same_and_another_one_others() -> None:
    assert searched("logloss", 1, 3, 4) == searched("logloss", 1, 3, 4) != searched("logloss", 1, 4, 4)


def test_a_space_that_is_tried_out_ends_the_search() -> None:
    space = {"kind": SPACE["kind"]}
    search = Search(Tune("auc", 16, "bayes"), space, made, 0)
    search.begin([{"kind": "a"}], [0.5])
    assert sorted(str(one.options["kind"]) for one in search.ask(8)) == ["(3, 4)", "b"]
    search.tell([None, 0.7])
    assert search.ask(4) == []


@pytest.fixture
def query(tmp_path: Path) -> str:
    return f"SELECT label, user, item FROM parquet.`{write(log(3000), tmp_path / 'log.parquet')}`"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "here", "duckdb", SilentReporter()) as opened:
        yield opened


TUNED = "TRAIN OR REPLACE MODEL m USING {} TUNE BY logloss TRIALS 9 METHOD bayes {} AS {}"
TRIALS = "SELECT * EXCEPT (seconds) FROM ML.TRIAL_INFO(MODEL m) ORDER BY trial_id"


@lengthy
@slow_elsewhere
def test_the_version_is_that_of_the_best_trial_or_of_the_defaults(session: xpsql.Session, query: str) -> None:  # noqa: F811
    found = []
    for _ in range(2):
        session.sql(
            TUNED.format("xftrl (alpha = HPARAM_RANGE(0.001, 1), l1 = HPARAM_CANDIDATES(0, 1))", "WITH (workers = 1)", query)
        )
        found.append(session.sql(TRIALS).arrow().to_pylist())
    first, again = ([trial["hyperparameters"] for trial in trials] for trials in found)
    assert first == again, "the seed decides"
    trials = found[0]
    assert [trial["trial_id"] for trial in trials] == [*range(10)]
    assert [trial["status"] for trial in trials] == ["default"] + ["SUCCEEDED"] * 9
    (best,) = [trial for trial in trials if trial["is_optimal"]]
    assert best["value"] == min(trial["value"] for trial in trials)
    assert session.models.version("m").manifest.metrics["logloss"] == pytest.approx(best["value"])
    (shown,) = session.sql("SHOW TRAIN MODEL m").arrow()["statement"].to_pylist()
    assert "TUNE" not in shown
    session.sql(shown.replace("MODEL m", "MODEL alone"))
    assert session.models.version("alone").manifest.metrics["logloss"] == pytest.approx(best["value"])


@costly
def test_networks_are_searched_one_after_the_other(here: xpsql.Session, query: str) -> None:
    tuned = TUNED.replace("TRIALS 9", "TRIALS 5")
    here.sql(tuned.format("xnn (dim = HPARAM_RANGE(2, 4), hidden = (4))", "VALIDATE ON 0.2", query))
    trials = here.sql(TRIALS).arrow().to_pylist()
    dims = [dict(trial["hyperparameters"]).get("dim") for trial in trials]
    assert dims[0] is None
    assert sorted(map(str, dims[1:])) == ["2", "3", "4"], "no value twice"


def test_without_optuna_the_extra_is_named_before_anything_starts(
    here: xpsql.Session, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "optuna" else find(name, *rest))
    for explain in ("EXPLAIN ", ""):
        statement = explain + TUNED.format("xftrl (alpha = HPARAM_RANGE(0.001, 1))", "", query).replace("OR REPLACE ", "")
        with pytest.raises(StatementError, match=r"needs the package optuna: pip install 'xpsql\[bayes\]'") as caught:
            here.sql(statement)
        assert caught.value.position is not None

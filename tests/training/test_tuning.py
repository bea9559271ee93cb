"""TUNE: options that are tried, and the best one's version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow
from tests.training.log import log, session, write  # noqa: F401  a fixture
from xpsql.platform.engines.spark_sql.hparams import HparamCandidates, HparamRange
from xpsql.platform.errors import StatementError, TrainingError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.clauses.tune import Tune
from xpsql.platform.training.tuning import tune
from xpsql.platform.training.tuning.paired import JudgedRows, gain_of
from xpsql.platform.training.tuning.space import Dimension, chosen
from xpsql.warehouse.calibration import read_table

TRIALS = "SELECT * FROM ML.TRIAL_INFO(MODEL m) ORDER BY trial_id"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(3000), tmp_path / "log.parquet")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as embedded:
        yield embedded


def rows(session: xpsql.Session, model: str) -> list[dict[str, Any]]:  # noqa: F811
    found: list[dict[str, Any]] = session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model})").arrow().to_pylist()
    return sorted(found, key=lambda row: (row["key"], row.get("table", "")))


@lengthy
@costly_after_first
def test_the_best_candidate_is_the_version_of_its_own_training(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    query = f"SELECT label, user, item FROM parquet.`{path}`"
    using = "xftrl (alpha = HPARAM_CANDIDATES(0.001, 0.3), l1 = 0)"
    session.sql(f"TRAIN MODEL m USING {using} TUNE BY auc TRIALS 2 METHOD grid WITH (workers = 1) AS {query}")
    trials = session.sql(TRIALS).arrow().to_pylist()
    assert [dict(trial["hyperparameters"]) for trial in trials] == [{}, {"alpha": "0.001"}, {"alpha": "0.3"}]
    assert [(trial["trial_id"], trial["status"]) for trial in trials] == [(0, "default"), (1, "SUCCEEDED"), (2, "SUCCEEDED")]
    assert {(trial["metric"], trial["examples"]) for trial in trials} == {("auc", 3000)}
    assert trials[2]["value"] > trials[1]["value"] + 0.005
    best = max((0, 2), key=lambda n: trials[n]["value"])
    assert [trial["is_optimal"] for trial in trials] == [n == best for n in range(3)]
    (shown,) = session.sql("SHOW TRAIN MODEL m").arrow()["statement"].to_pylist()
    assert ("(l1 = 0)" if best == 0 else "(alpha = 0.3, l1 = 0)") in shown
    assert "TUNE" not in shown
    session.sql(shown.replace("MODEL m", "MODEL alone"))
    (chosen,) = session.sql("SHOW TRAIN MODEL m WITH (chosen = true)").arrow()["statement"].to_pylist()
    assert "beta = " in chosen
    assert "TUNE" not in chosen
    session.sql(chosen.replace("MODEL m", "MODEL written"))
    assert rows(session, "m") == rows(session, "alone") == rows(session, "written")
    assert session.models.version("m").manifest.metrics["auc"] == trials[best]["value"]
    assert [row["name"] for row in session.sql("SHOW MODELS").arrow().to_pylist()] == ["alone", "m", "written"]


@costly
def test_a_query_that_is_staged_runs_once_for_all_candidates(
    embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged: list[str] = []
    stage = embedded.engine.stage
    monkeypatch.setattr(embedded.engine, "stage", lambda query, folder: (staged.append(query), stage(query, folder))[1])
    embedded.sql(
        "TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.01, 1)) TUNE BY logloss TRIALS 4 VALIDATE ON 0.3 "
        f"AS SELECT label, user, item FROM parquet.`{path}` ORDER BY item, user, ts"
    )
    assert len(staged) == 1
    trials = embedded.sql(TRIALS).arrow().to_pylist()
    (best,) = [trial for trial in trials if trial["is_optimal"]]
    assert best["value"] == min(trial["value"] for trial in trials) or best["status"] == "default"
    (version,) = embedded.sql("SELECT * FROM ML.VERSIONS() WHERE model = 'm'").arrow().to_pylist()
    manifest = embedded.models.version("m").manifest
    assert manifest.validation["logloss"] == best["value"]
    assert version["version"] == 1
    assert not any((path.parent / "warehouse" / ".scratch").iterdir())


def test_a_candidate_whose_numbers_grow_without_bound_is_infeasible(
    embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = tune.train

    def diverging(plan: Any, *rest: Any) -> pa.Table:
        if any(one.alpha == 0.5 for one in getattr(plan.algorithm.options, "options", (plan.algorithm.options,))):
            raise TrainingError("numbers grew")
        return train(plan, *rest)

    monkeypatch.setattr(tune, "train", diverging)
    query = f"SELECT label, user, item FROM parquet.`{path}`"
    embedded.sql(f"TRAIN MODEL m USING xftrl (alpha = HPARAM_CANDIDATES(0.5, 0.1)) TUNE BY auc TRIALS 2 METHOD grid AS {query}")
    found = [(trial["status"], trial["is_optimal"]) for trial in embedded.sql(TRIALS).arrow().to_pylist()]
    assert [status for status, _ in found] == ["default", "INFEASIBLE", "SUCCEEDED"]
    assert not found[1][1]
    with pytest.raises(TrainingError, match=r"None of 2 trials could be trained\. The first one: numbers grew"):
        embedded.sql(
            f"TRAIN MODEL n USING xftrl (alpha = 0.5, l1 = HPARAM_CANDIDATES(0, 1)) TUNE BY auc TRIALS 2 METHOD grid AS {query}"
        )


@costly
@pytest.mark.parametrize(
    ("using", "metric", "clauses"),
    [
        (
            "xftrl (alpha = HPARAM_CANDIDATES(0.01, 0.3))",
            "logloss",
            "OPERATORS (admit (min_count = 2)) EVALUATE EVERY 4 BATCHES ON 2 BATCHES",
        ),
        ("fm (dim = HPARAM_CANDIDATES(2, 5), alpha = 0.1)", "logloss", "VALIDATE ON (SELECT * FROM log LIMIT 500)"),
        pytest.param("linear_regression (l2 = HPARAM_CANDIDATES(0, 0.5))", "rmse", "VALIDATE ON 0.2", marks=slow),
    ],
)
def test_candidates_that_learn_side_by_side_learn_what_each_learns_alone(
    embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch, using: str, metric: str, clauses: str
) -> None:
    learned: list[str] = []
    train = tune.train
    monkeypatch.setattr(tune, "train", lambda plan, *rest: (learned.append(plan.model), train(plan, *rest))[1])
    embedded.sql(f"CREATE TEMPORARY VIEW log AS SELECT label, user, item FROM parquet.`{path}` LIMIT 2000")
    rest = f"{clauses} WITH (batch_size = 200, shards = 2) AS SELECT * FROM log"
    embedded.sql(f"TRAIN MODEL m USING {using} TUNE BY {metric} TRIALS 2 METHOD grid {rest}")
    assert learned == ["trial", "m"]
    trials = embedded.sql(TRIALS).arrow().to_pylist()
    assert trials[1]["value"] != trials[2]["value"]
    for trial in trials:
        given = [f"{name} = {value}" for name, value in dict(trial["hyperparameters"]).items()]
        given += ["alpha = 0.1"] if "alpha = 0.1" in using else []
        listed = ", ".join(given)
        own = using.partition(" ")[0] + (f" ({listed})" if given else "")
        embedded.sql(f"TRAIN OR REPLACE MODEL alone USING {own} {rest}")
        alone = tune.judging(embedded.models.version("alone").manifest)[metric]
        assert alone == pytest.approx(trial["value"], rel=1e-6)
    assert_is_that_of_its_own_training(embedded, learned)


def assert_is_that_of_its_own_training(session: xpsql.Session, learned: list[str]) -> None:  # noqa: F811
    """Require rows, metrics and curves of a version that TUNE made to be those of its statement by itself."""
    del learned[:]
    session.sql(session.sql("SHOW TRAIN MODEL m").arrow()["statement"][0].as_py().replace("MODEL m", "OR REPLACE MODEL alone"))
    assert learned == []
    assert rows(session, "m") == rows(session, "alone")
    mine, alone = (session.models.version(name).manifest for name in ("m", "alone"))
    for field in ("examples", "rows", "base_rate", "best_pass"):
        assert getattr(mine.learned, field) == getattr(alone.learned, field), field
    assert (mine.statistics, mine.sizes.batch_size) == (alone.statistics, alone.sizes.batch_size)
    for field in ("metrics", "validation", "evaluation"):  # sums, whose order may be another one
        told = [{k: v for k, v in getattr(one, field).items() if k != "examples_per_second"} for one in (mine, alone)]
        assert told[0] == pytest.approx(told[1]), field
    info = "SELECT `pass`, `window`, validation, examples, logloss, rmse FROM ML.TRAINING_INFO(MODEL {})"
    info += " WHERE `window` IS NOT NULL OR validation ORDER BY 1, 2"
    curves = [session.sql(info.format(name)).arrow().to_pylist() for name in ("m", "alone")]
    assert [pytest.approx(line) for line in curves[0]] == curves[1]


@costly
@pytest.mark.parametrize(
    ("using", "rest"),
    [
        (
            "fm (dim = 2, alpha = HPARAM_CANDIDATES(0.01, 0.03, 0.1, 0.3))",
            "VALIDATE ON 0.2 WITH (passes = 2, batch_size = 100)",
        ),
        (
            "xftrl (alpha = HPARAM_CANDIDATES(0.01, 0.03, 0.1, 0.3))",
            "EVALUATE EVERY 3 BATCHES ON 2 BATCHES WITH (batch_size = 90)",
        ),
    ],
)
def test_candidates_that_go_on_learn_what_they_would_have_learned_in_one_go(
    embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch, using: str, rest: str
) -> None:
    learned: list[str] = []
    train = tune.train
    monkeypatch.setattr(tune, "train", lambda plan, *rest: (learned.append(plan.model), train(plan, *rest))[1])
    tuned = f"TUNE BY logloss TRIALS 4 METHOD halving {rest}"
    embedded.sql(
        f"TRAIN MODEL m USING {using} {tuned} AS SELECT label, user, item FROM parquet.`{path}` ORDER BY item, user, ts"
    )
    assert learned == ["trial", "m"]
    assert sorted(trial["status"] for trial in embedded.sql(TRIALS).arrow().to_pylist()) == [
        *["STOPPED"] * 2,
        *["SUCCEEDED"] * 2,
        "default",
    ]
    assert_is_that_of_its_own_training(embedded, learned)


@costly
@pytest.mark.parametrize("rest", [pytest.param("", marks=slow), "WITH (passes = 2)", "CALIBRATE (by = (item))"])
def test_a_candidate_goes_on_with_what_was_observed_of_its_rows(embedded: xpsql.Session, path: Path, rest: str) -> None:
    using = "xftrl (alpha = HPARAM_CANDIDATES(0.01, 0.03, 0.1, 0.3))"
    tuned = f"TUNE BY logloss TRIALS 4 METHOD halving {rest}"
    embedded.sql(f"TRAIN MODEL m USING {using} {tuned} AS SELECT label, user, item FROM parquet.`{path}`")
    (shown,) = embedded.sql("SHOW TRAIN MODEL m").arrow()["statement"].to_pylist()
    embedded.sql(shown.replace("MODEL m", "MODEL alone"))
    tuned_one, alone = (embedded.models.version(name) for name in ("m", "alone"))
    kinds = ("profile", "calibration") if "CALIBRATE" in rest else ("profile",)
    for kind in kinds:
        ((found,), (expected,)) = (version.stored(kind) for version in (tuned_one, alone))
        assert read_table(found).equals(read_table(expected))
    assert tuned_one.manifest.calibrators == alone.manifest.calibrators
    assert tuned_one.manifest.metrics == pytest.approx(alone.manifest.metrics)


@costly
@pytest.mark.parametrize(
    "rest", ["OPERATORS (safety)", "VALIDATE ON 0.2 WITH (passes = 3, patience = 1)"], ids=["counts of all", "its own patience"]
)
def test_a_best_candidate_that_cannot_go_on_is_trained_again(embedded: xpsql.Session, path: Path, rest: str) -> None:
    using = "xftrl (alpha = HPARAM_CANDIDATES(0.01, 0.3))"
    embedded.sql(
        f"TRAIN MODEL m USING {using} TUNE BY logloss TRIALS 2 METHOD grid {rest} AS SELECT label, user FROM parquet.`{path}`"
    )
    assert_is_that_of_its_own_training(embedded, [])


@costly
def test_halving_judges_all_by_the_first_rows_and_the_better_ones_by_more(embedded: xpsql.Session, path: Path) -> None:
    query = f"WITH (batch_size = 50) AS SELECT label, user, item FROM parquet.`{path}`"
    using = "xftrl (alpha = HPARAM_CANDIDATES(0.0001, 0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5))"
    embedded.sql(f"TRAIN MODEL m USING {using} TUNE BY logloss TRIALS 8 METHOD halving {query}")
    trials = embedded.sql(TRIALS).arrow().to_pylist()
    assert sorted(trial["examples"] for trial in trials) == [750] * 4 + [1500] * 5
    assert sorted(trial["status"] for trial in trials) == [*["STOPPED"] * 6, *["SUCCEEDED"] * 2, "default"]
    best = next(trial for trial in trials if trial["is_optimal"])
    assert best["value"] == min(trial["value"] for trial in trials if trial["examples"] == 1500)
    assert {trial["status"] for trial in trials[1:] if dict(trial["hyperparameters"])["alpha"] < "0.01"} == {"STOPPED"}
    embedded.sql(embedded.sql("SHOW TRAIN MODEL m").arrow()["statement"][0].as_py().replace("MODEL m", "MODEL alone"))
    assert rows(embedded, "m") == rows(embedded, "alone")
    assert embedded.models.version("m").manifest.learned.examples == 3000


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) AS {q}", "needs a clause"),
        ("TRAIN MODEL m USING xftrl TUNE BY auc TRIALS 4 AS {q}", "needs an option that is tried"),
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(1, 0.1)) TUNE BY auc TRIALS 4 AS {q}", "the lower one first"),
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(-1, 1)) TUNE BY auc TRIALS 4 AS {q}", "alpha"),
        ("TRAIN MODEL m USING xftrl (alfa = HPARAM_RANGE(0.1, 1)) TUNE BY auc TRIALS 4 AS {q}", "Did you mean alpha"),
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) TUNE BY pcopc TRIALS 4 AS {q}", "expects a metric"),
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) TUNE BY gauc TRIALS 2 AS {q}", "does not measure"),
        (
            "TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) TUNE BY auc TRIALS 4 METHOD tpe AS {q}",
            "random, grid, halving or bayes",
        ),
        ("TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) TUNE BY auc TRIALS 4 METHOD grid AS {q}", "is a range"),
        ("TRAIN MODEL m USING xftrl (l1 = HPARAM_CANDIDATES(0, 1, 2)) TUNE BY auc TRIALS 2 METHOD grid AS {q}", "has 3 comb"),
        ("TRAIN MODEL m USING xftrl OPERATORS (ftrl (alpha = HPARAM_RANGE(0.1, 1))) TUNE BY auc TRIALS 4 AS {q}", "of USING"),
        (
            "TRAIN MODEL m USING xftrl (l1 = HPARAM_RANGE(0, 1)) TUNE BY auc TRIALS 4 WITH (seed = HPARAM_RANGE(1, 2)) AS {q}",
            "of USING, and WITH has one value of each",
        ),
        ("CONTINUE MODEL m TUNE BY auc TRIALS 4 AS {q}", "Leave TUNE out"),
        (
            "TRAIN MODEL m USING xftrl (alpha = HPARAM_RANGE(0.1, 1)) TUNE BY auc TRIALS 4 AS SELECT * FROM STREAM parquet.`x`",
            "a stream does not end",
        ),
    ],
)
def test_what_cannot_be_tuned_says_why(embedded: xpsql.Session, path: Path, statement: str, words: str) -> None:
    with pytest.raises(StatementError, match=words) as caught:
        embedded.sql(statement.format(q=f"SELECT label, user FROM parquet.`{path}` LIMIT 300"))
    assert caught.value.position is not None


def test_a_version_without_trials_says_so(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}` LIMIT 300")
    with pytest.raises(StatementError, match="without TUNE"):
        embedded.sql(TRIALS)


@costly
def test_the_defaults_win_where_nothing_beats_them_beyond_chance(embedded: xpsql.Session, path: Path) -> None:
    notes: list[str] = []

    class Noting(SilentReporter):
        def note(self, message: str) -> None:
            notes.append(message)

    embedded.reporter = Noting()
    query = f"VALIDATE ON 0.3 WITH (workers = 1) AS SELECT label, user, item FROM parquet.`{path}`"
    for candidates, wins in (("0.0001, 0.0002", True), ("0.099, 0.101", True)):
        using = f"xftrl (l1 = 0, alpha = HPARAM_CANDIDATES({candidates}), l2 = 0)"
        embedded.sql(f"TRAIN OR REPLACE MODEL m USING {using} TUNE BY logloss TRIALS 2 METHOD grid {query}")
        trials = embedded.sql(TRIALS).arrow().to_pylist()
        assert trials[0]["is_optimal"] == wins, (trials, notes)
        assert "USING xftrl (l1 = 0, l2 = 0) VALIDATE" in embedded.sql("SHOW TRAIN MODEL m").arrow()["statement"][0].as_py()
        assert any(note.startswith("Trial 0 has the defaults, and none of 2 beats them, logloss ") for note in notes)
    bad = "xftrl (alpha = 0.0001, beta = HPARAM_CANDIDATES(1, 0.001))"
    embedded.sql(f"TRAIN OR REPLACE MODEL m USING {bad} TUNE BY logloss TRIALS 2 METHOD grid {query}")
    assert [trial["is_optimal"] for trial in embedded.sql(TRIALS).arrow().to_pylist()] == [False, False, True]
    assert any("; better than the defaults by " in note for note in notes)


def test_an_interval_on_the_same_rows_is_that_of_their_differences() -> None:
    random = np.random.default_rng(3)
    labels = (random.random(20_000) < 0.3).astype(np.float32)
    first = np.clip(0.3 + 0.3 * (labels - 0.3) + random.normal(0, 0.05, 20_000), 0.01, 0.99).astype(np.float32)
    other = np.clip(first + random.normal(0, 0.01, 20_000), 0.01, 0.99).astype(np.float32)

    def losses(predictions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return -np.log(np.where(labels == 1, predictions, 1 - predictions).astype(np.float64))

    found = gain_of("logloss", *(JudgedRows(labels, one[None], "classes") for one in (first, other)))
    differences = losses(other) - losses(first)
    assert found.gain == pytest.approx(differences.mean(), rel=1e-3)
    assert found.half == pytest.approx(2.09 * differences.std() / np.sqrt(20_000), rel=0.5)


@costly
def test_candidates_fill_the_space_evenly() -> None:
    space = {
        "rate": Dimension(HparamRange(0.001, 1), whole=False),
        "dim": Dimension(HparamRange(2, 9), whole=True),
        "kind": Dimension(HparamCandidates(("a", "b")), whole=False),
        "low": Dimension(HparamRange(-1, 1), whole=False),
    }
    found = chosen(Tune("auc", 64, "random"), space, seed=7)
    assert found == chosen(Tune("auc", 64, "random"), space, seed=7)
    assert len(found) == 64
    decades = np.floor(np.log10([point["rate"] for point in found]))
    assert np.bincount((decades + 3).astype(int)).min() >= 20  # of 64, a third each
    assert {point["dim"] for point in found} == set(range(2, 10))
    assert {type(point["dim"]) for point in found} == {int}
    assert [point["kind"] for point in found].count("a") == 32
    assert sum(point["low"] < 0 for point in found) == 32
    several = chosen(Tune("auc", 64, "random"), {"kind": space["kind"]}, seed=7)
    assert [*map(dict, several)] in ([{"kind": "a"}, {"kind": "b"}], [{"kind": "b"}, {"kind": "a"}])

"""USING auto: what it finds, what it refuses, what it costs, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy, quick, slow
from tests.training.auto.logs import planted, written
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.auto.stages import verdict

TRIALS = "SELECT * FROM ML.TRIAL_INFO(MODEL m) ORDER BY trial_id"
ROWS = 8000


class Notes(SilentReporter):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def embedded(tmp_path: Path, notes: Notes) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", "duckdb", notes) as session:
        yield session


@pytest.fixture
def query(tmp_path: Path) -> str:
    return written(planted(ROWS), tmp_path / "log.parquet")


def auto(query: str, trials: int, options: str = "", rest: str = "") -> str:
    return f"TRAIN MODEL m USING auto {options} TIME ts {rest} BUDGET {trials} TRIALS WITH (workers = 1) AS {query}"


def shown(session: xpsql.Session, more: str = "") -> str:
    (statement,) = session.sql(f"SHOW TRAIN MODEL m {more}").arrow()["statement"].to_pylist()
    return str(statement)


def trials(session: xpsql.Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session.sql(TRIALS).arrow().to_pylist()
    return found


def weights(session: xpsql.Session, model: str) -> list[str]:
    return sorted(map(str, session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model})").arrow().to_pylist()))


@lengthy
def test_the_planted_cross_is_in_the_statement_which_makes_the_same_version_again(
    embedded: xpsql.Session, query: str, notes: Notes
) -> None:
    embedded.sql(auto(query, 3, "(algorithms = (fm), most_crosses = 5)"))
    statement = shown(embedded)
    assert "CROSS (s0 * s1)" in statement
    assert "USING auto" not in statement
    found = trials(embedded)
    (won,) = [trial for trial in found if trial["is_optimal"]]
    assert (won["stage"], won["statement"]) == ("crosses", statement)
    assert won["low"] > 0.01
    assert won["low"] < won["difference"] < won["high"]
    assert won["difference"] == pytest.approx(won["value"] - found[0]["value"])
    assert {trial["rows"] for trial in found if trial["status"] == "SUCCEEDED"} == {ROWS * 6 // 10}
    assert any("wins: auc" in note and "on the telling half" in note for note in notes.notes)
    embedded.sql(statement.replace("MODEL m", "MODEL again"))
    chosen = shown(embedded, "WITH (chosen = true)")
    assert "alpha = " in chosen
    assert "batch_size = 64" in chosen
    embedded.sql(chosen.replace("MODEL m", "MODEL written"))
    assert weights(embedded, "m") == weights(embedded, "again") == weights(embedded, "written")
    assert [row["name"] for row in embedded.sql("SHOW MODELS").arrow().to_pylist()] == ["again", "m", "written"]
    assert not [*(Path(embedded.models.warehouse) / ".auto").iterdir()]


@costly
@pytest.mark.parametrize("seed", quick(range(3), [0]))
def test_the_defaults_win_where_labels_are_noise(embedded: xpsql.Session, tmp_path: Path, notes: Notes, seed: int) -> None:
    query = written(planted(4000, seed, pairs=0), tmp_path / "noise.parquet")
    embedded.sql(auto(query, 10, "(algorithms = (fm))"))
    assert "USING xftrl\n" in shown(embedded)
    assert "CROSS" not in shown(embedded)
    assert trials(embedded)[0]["is_optimal"] or trials(embedded)[0]["value"] < 0.55
    (said,) = [note for note in notes.notes if "on the telling half" in note]
    assert "beats the defaults of xftrl beyond chance" in said


def test_a_budget_for_the_defaults_alone_is_told() -> None:
    forms, found = [SimpleNamespace(algorithm="xftrl")], [{"metric": 0.6, "share": 1}]
    trials = SimpleNamespace(best=0, metric="auc", forms=forms, found=found, told=lambda number: (0.6, 0.02))
    search: Any = SimpleNamespace(trials=trials)
    expected = "Nothing but the defaults of xftrl was tried, as the budget allowed no other trial; auc 0.6000 +- 0.02 on the"
    assert verdict(search).startswith(expected)


def test_its_options_are_described_as_those_of_an_algorithm(embedded: xpsql.Session) -> None:
    options = embedded.sql("DESCRIBE ALGORITHM auto").arrow()["option"].to_pylist()
    assert options == ["metric", "algorithms", "most_crosses", "simple", "leaks"]


def with_leak(table: pa.Table) -> pa.Table:
    """Return rows with the time of the click, which is missing without one."""
    clicked = table.column("label").to_numpy() > 0
    return table.append_column("clicked", pa.array(np.arange(len(clicked)) % 40, pa.int64(), mask=~clicked))


@costly
def test_a_column_that_tells_the_label_is_refused_and_dropped_where_the_statement_says_so(
    embedded: xpsql.Session, tmp_path: Path, notes: Notes
) -> None:
    query = written(with_leak(planted(4000)), tmp_path / "leak.parquet")
    with pytest.raises(
        StatementError, match=r"Column clicked alone tells the label: AUC 1\.000.*IGNORE \(clicked\)"
    ) as refused:
        embedded.sql(auto(query, 2))
    assert refused.value.position is not None
    assert refused.value.position.text.startswith("USING auto")
    assert not embedded.models.exists("m")
    embedded.sql(auto(query, 1, "(leaks = 'drop')"))
    assert "IGNORE (clicked)" in shown(embedded)
    embedded.sql(f"TRAIN MODEL without USING xftrl TIME ts IGNORE (clicked) VALIDATE ON LAST 0.4 WITH (workers = 1) AS {query}")
    assert weights(embedded, "m") == weights(embedded, "without")
    assert any("alone tells the label" in note for note in notes.notes)


@slow
def test_ids_and_copies_are_told_and_what_is_found_is_the_same_without_them(
    embedded: xpsql.Session, tmp_path: Path, notes: Notes
) -> None:
    table = planted(ROWS)
    table = table.append_column("row_id", pa.array(np.arange(ROWS) + 9)).append_column("copy", table.column("s0"))
    embedded.sql(auto(written(table, tmp_path / "ids.parquet"), 4, "(algorithms = (fm))"))
    assert any(note.startswith("Column row_id: 4,800 values in 4,800 rows, nearly one for each") for note in notes.notes)
    assert any(note.startswith("Column copy: the same as s0, value for value") for note in notes.notes)
    assert "CROSS (s0 * s1)" in shown(embedded) or "CROSS (s1 * copy)" in shown(embedded)


def with_history(table: pa.Table) -> pa.Table:
    """Return rows with what a user had before: values of s4."""
    values, random = table.column("s4").to_pylist(), np.random.default_rng(0)
    seen = [[values[place] for place in random.integers(0, number + 1, 3)] for number in range(len(values))]
    return table.append_column("seen", pa.array(seen, pa.list_(pa.string())))


@costly
def test_click_rates_histories_trees_and_owlqn_are_tried_where_they_can_be(embedded: xpsql.Session, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    query = written(with_history(planted(3000)), tmp_path / "history.parquet")
    embedded.sql(auto(query, 20, "(algorithms = (owlqn, din, xgboost), most_crosses = 0)"))
    (rates,) = (trial for trial in trials(embedded) if trial["stage"] == "rates")
    assert rates["status"] == "SUCCEEDED"
    assert "OPERATORS (auto_session)" in rates["statement"]
    tried = {trial["statement"].split()[4]: trial for trial in trials(embedded) if trial["stage"] == "families"}
    assert {name: trial["status"] for name, trial in tried.items()} == dict.fromkeys(("owlqn", "xgboost", "din"), "SUCCEEDED")
    assert "USING din (target = (s4), history = (seen))" in tried["din"]["statement"]
    assert "share = (seen AS s4)" in tried["din"]["statement"]
    assert "IGNORE (seen)" in tried["xgboost"]["statement"]


@costly
def test_the_best_is_tried_without_arrays_at_the_end(embedded: xpsql.Session, tmp_path: Path) -> None:
    query = written(with_history(planted(3000)), tmp_path / "history.parquet")
    embedded.sql(auto(query, 40, "(algorithms = (owlqn), most_crosses = 0)"))
    last = trials(embedded)[-1]
    assert (last["stage"], last["status"]) == ("columns", "SUCCEEDED")
    assert "IGNORE (seen)" in last["statement"]


@lengthy
def test_without_time_the_defaults_that_win_are_those_of_a_plain_statement(embedded: xpsql.Session, tmp_path: Path) -> None:
    query = written(planted(3000).drop_columns(["ts"]), tmp_path / "log.parquet")
    embedded.sql(f"TRAIN MODEL m USING auto BUDGET 1 TRIALS WITH (workers = 1) AS {query}")
    assert "held_out = 'all'" in shown(embedded)
    embedded.sql(f"TRAIN MODEL plain USING xftrl WITH (workers = 1) AS {query}")
    assert weights(embedded, "m") == weights(embedded, "plain")


@lengthy
def test_a_network_learns_in_several_passes_where_no_time_says_that_rows_held_out_are_later(
    embedded: xpsql.Session, tmp_path: Path
) -> None:
    query = written(planted(3000).drop_columns(["ts"]), tmp_path / "log.parquet")
    statement = auto(query, 30, "(algorithms = (xnn), most_crosses = 0)").replace(" TIME ts", "")
    explained = {row["property"]: row["value"] for row in embedded.sql(f"EXPLAIN {statement}").arrow().to_pylist()}
    assert explained["stage several passes"].startswith("xnn, normalised by batches, at most 20: about ")
    embedded.sql(statement)
    (trial,) = (trial for trial in trials(embedded) if trial["stage"] == "several passes")
    assert trial["status"] == "SUCCEEDED", trial["error_message"]
    assert "USING xnn (wide = FALSE, normalise = 'batch_norm', dropout = 0.2, init_scale = 0.0001)" in trial["statement"]
    assert "OPERATORS (adam (whole = true, l2 = 6.25) ON vectors)" in trial["statement"]
    assert "passes = 20, batch_size = 128, patience = 2, patience_by = 'auc', plateau = 0.1" in trial["statement"]
    embedded.sql(statement.replace("TRAIN MODEL m", "TRAIN MODEL n").replace("workers = 1", "workers = 1, batch_size = 256"))
    found = embedded.sql(TRIALS.replace("MODEL m", "MODEL n")).arrow().to_pylist()
    (trial,) = (trial for trial in found if trial["stage"] == "several passes")
    assert trial["status"] == "SUCCEEDED", trial["error_message"]  # the user's own batch_size stays
    assert "workers = 1, batch_size = 256, held_out = 'all', passes = 20, patience = 2" in trial["statement"]
    assert "l2 = 12.5)" in trial["statement"]


@slow
def test_labels_in_runs_are_mixed(embedded: xpsql.Session, tmp_path: Path, notes: Notes) -> None:
    table = planted(3000).drop_columns(["ts"]).sort_by("label")
    query = written(table, tmp_path / "sorted.parquet")
    embedded.sql(f"TRAIN MODEL m USING auto BUDGET 1 TRIALS AS {query}")
    assert "ORDER BY xxhash64(`s0`, `s1`" in shown(embedded)
    assert any(note.startswith("Labels come in runs") for note in notes.notes)
    assert trials(embedded)[0]["value"] > 0.55


@lengthy
def test_rows_are_ordered_by_time_where_they_are_not(embedded: xpsql.Session, tmp_path: Path) -> None:
    table = planted(3000)
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(3000)))
    embedded.sql(f"TRAIN MODEL m USING auto BUDGET 1 TRIALS AS {written(shuffled, tmp_path / 'mixed.parquet')}")
    assert "TIME ts\n" in shown(embedded)
    assert "VALIDATE ON LAST 0.4" in shown(embedded)
    assert shown(embedded).endswith("ORDER BY `ts`")


@slow
def test_numbers_as_labels_are_compared_by_their_errors(embedded: xpsql.Session, tmp_path: Path) -> None:
    table = planted(3000)
    number = pa.array(np.random.default_rng(1).normal(3, 1, 3000) + table.column("label").to_numpy())
    table = table.drop_columns(["label"]).append_column("label", number)
    embedded.sql(auto(written(table, tmp_path / "numbers.parquet"), 3, "(algorithms = (fm))"))
    assert {trial["metric"] for trial in trials(embedded)} == {"rmse"}
    assert "USING linear_regression" in trials(embedded)[0]["statement"]


def test_a_label_that_is_not_there_is_an_error_at_its_clause(embedded: xpsql.Session, query: str) -> None:
    with pytest.raises(StatementError, match="buy") as refused:
        embedded.sql(auto(query, 2, rest="LABEL buy"))
    assert refused.value.position is not None
    assert refused.value.position.text == "LABEL buy"


def test_few_positives_leave_the_defaults(embedded: xpsql.Session, tmp_path: Path, notes: Notes) -> None:
    embedded.sql(auto(written(planted(400), tmp_path / "few.parquet"), 9))
    assert len(trials(embedded)) == 1
    assert any("too few to tell a difference" in note for note in notes.notes)


@costly
def test_trials_that_a_budget_of_time_does_not_reach_for_say_so(embedded: xpsql.Session, query: str) -> None:
    embedded.sql(f"TRAIN MODEL m USING auto TIME ts BUDGET '6 seconds' AS {query}")
    skipped = [trial["error_message"] for trial in trials(embedded) if trial["status"] == "SKIPPED"]
    assert skipped
    assert all("left of the budget" in why or "was stopped" in why for why in skipped)


@costly
def test_a_budget_of_memory_leaves_out_what_would_not_fit(embedded: xpsql.Session, query: str) -> None:
    statement = auto(query, 9, "(algorithms = (fm), most_crosses = 0)").replace("TRIALS", "TRIALS, 0.03 MB")
    embedded.sql(statement)
    (fm,) = [trial for trial in trials(embedded) if trial["stage"] == "families"]
    assert fm["status"] == "SKIPPED"
    assert fm["error_message"].startswith("Its rows would take about ")


@costly
def test_a_search_that_ended_before_its_version_goes_on_with_the_trials_that_are_over(
    embedded: xpsql.Session, query: str, tmp_path: Path, notes: Notes
) -> None:
    statement = auto(query, 3, "(algorithms = (fm))")

    class KilledError(BaseException):
        pass

    def stop(text: str) -> None:
        if text.startswith("Trial 2 "):
            raise KilledError
        notes.notes.append(text)

    notes.note = stop  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        embedded.sql(statement)
    del notes.note
    with (tmp_path / "warehouse/.auto/m/trials.jsonl").open("a") as journal:
        journal.write('{"key": "cut by a ki')
    began = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "warehouse/.auto/m").glob("*.npz")}
    assert len(began) == 3
    embedded.sql("RESUME MODEL m")
    assert [trial["status"] for trial in trials(embedded)][:3] == ["default", "SUCCEEDED", "SUCCEEDED"]
    assert not (tmp_path / "warehouse/.auto/m").exists()
    with pytest.raises(ModelError, match="no training to resume"):
        embedded.sql("RESUME MODEL m")


def test_a_model_that_exists_is_refused_before_anything_is_tried(embedded: xpsql.Session, query: str, notes: Notes) -> None:
    embedded.sql(f"TRAIN MODEL m USING xftrl TIME ts AS {query}")
    del notes.notes[:]
    with pytest.raises(ModelError, match="Model m exists"):
        embedded.sql(auto(query, 2))
    assert not any("Trial" in note for note in notes.notes)
    embedded.sql(auto(query, 1).replace("TRAIN", "TRAIN OR REPLACE"))
    assert shown(embedded).startswith("TRAIN OR REPLACE MODEL m\n  USING xftrl\n")


def test_explain_says_stages_and_times_and_trains_nothing(embedded: xpsql.Session, query: str, tmp_path: Path) -> None:
    found = embedded.sql(f"EXPLAIN {auto(query, 5, '(algorithms = (fm, xnn))')}").arrow().to_pylist()
    told = {row["property"]: row["value"] for row in found}
    assert told["budget"] == "5 TRIALS"
    assert told["metric"] == "auc"
    assert told["rows"] == "4,800 are learned by each trial"
    assert told["stage families"].startswith("fm, xnn, with their defaults: about ")
    assert "stage several passes" not in told  # the last rows are held out
    assert not embedded.models.exists("m")
    assert not (tmp_path / "warehouse/.auto").exists()
    staged = embedded.sql(f"EXPLAIN {auto(f'SELECT * FROM ({query}) ORDER BY s1', 5)}").arrow().to_pylist()
    assert {row["property"]: row["value"] for row in staged}["rows"] == "known once the query has run"


@costly
def test_the_crosses_that_a_model_lacks_are_told_alone(embedded: xpsql.Session, query: str) -> None:
    embedded.sql(f"TRAIN MODEL m USING xftrl TIME ts AS {query} WHERE ts < timestamp_seconds(1700004000)")
    later = f"({query} WHERE ts >= timestamp_seconds(1700004000))"
    for order in ("", ", 3"):
        (found,) = embedded.sql(f"SELECT * FROM ML.CROSSES(MODEL m, {later}{order})").arrow().to_pylist()
        assert (found["slots"], found["order"], found["verdict"]) == ("s0 * s1", 2, "lacks")
        assert found["low"] > 0
    embedded.sql(f"TRAIN MODEL n USING xftrl TIME ts CROSS (s0 * s1) WITH (passes = 3) AS {query}")
    assert embedded.sql(f"SELECT * FROM ML.CROSSES(MODEL n, {later})").arrow().num_rows == 0
    slots = embedded.sql(f"SELECT * FROM ML.CROSSES(MODEL m, {later}, 1)").arrow().to_pylist()
    verdicts = {row["slots"]: row["verdict"] for row in slots}
    assert verdicts["s2"] == "tells"
    assert {verdicts[f"s{n}"] for n in (3, 4, 5)} <= {"dead", "hurts"}
    with pytest.raises(StatementError, match="expects an order of 1 to 4"):
        embedded.sql(f"SELECT * FROM ML.CROSSES(MODEL m, {later}, 9)")


@costly
def test_crosses_are_found_for_labels_with_classes_too(embedded: xpsql.Session, tmp_path: Path) -> None:
    table = planted(ROWS)
    label = pa.array(["buys" if one else "leaves" if n % 5 else "asks" for n, one in enumerate(table["label"].to_pylist())])
    query = written(table.drop_columns(["label"]).append_column("label", label), tmp_path / "classes.parquet")
    embedded.sql(auto(query, 3, "(algorithms = (fm))"))
    tried = [trial for trial in trials(embedded) if trial["stage"] == "crosses"]
    assert "CROSS (s0 * s1)" in tried[0]["statement"]
    assert tried[0]["status"] == "SUCCEEDED"
    assert not any(trial["stage"] == "rates" for trial in trials(embedded))

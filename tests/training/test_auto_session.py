"""Auto-session in trainings: it brings accuracy, leaks no label, and is kept, continued and scored with like weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow
from tests.training.log import embedded, log, session, write
from xpsql.platform.input.batches import Batch
from xpsql.platform.input.operator_inputs import offered_of
from xpsql.platform.ps.compiled.ladder import Ladder, rung
from xpsql.platform.ps.messages import BatchId

__all__ = ["session"]

CHAINS = ["auto_session", "auto_session(short = '1 minute', mid = '10 minutes', long = '2 hours', prior = 5)"]
QUERY = "SELECT label, ts, user, item, tags FROM parquet.`{}`"
SETTINGS = "batch_size = 200, workers = 1, base_rate = 0.3"


def train(session: xpsql.Session, name: str, path: Path, operators: str, settings: str = SETTINGS) -> None:
    clauses = f"TIME ts OPERATORS ({operators}) WITH ({settings})"
    session.sql(f"TRAIN MODEL {name} USING xftrl {clauses} AS {QUERY.format(path)}")


def metrics(session: xpsql.Session, text: str) -> dict[str, Any]:
    (row,) = session.sql(f"SELECT * EXCEPT (measured_on) FROM ML.EVALUATE({text})").arrow().to_pylist()
    return {name: value for name, value in row.items() if value is not None}


def rows(session: xpsql.Session, name: str, number: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the stored rows by key, all columns."""
    batches = session.models.version(name, number).rows("weights")
    return {
        row["key"]: {name: reported(value) for name, value in row.items()} for batch in batches for row in batch.to_pylist()
    }


def reported(value: Any) -> Any:
    """Return the state of an optimizer as numbers, and all else as it is."""
    return np.frombuffer(value, "<f4").tolist() if isinstance(value, bytes) else value


@lengthy
@embedded
def test_rates_that_change_are_followed(session: xpsql.Session, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    n, users = 30_000, 40
    user, phase = random.integers(0, users, n), np.arange(n) // 1_000
    liked = (user * 7 + phase // 3) % users < users // 2  # who clicks changes every 3,000 examples
    label = (random.random(n) < np.where(liked, 0.8, 0.2)).astype(np.int32)
    time = pa.array(np.arange(n) * 1_000_000, pa.timestamp("us"))
    path = write(pa.table({"label": label, "user": user, "ts": time}), tmp_path / "changing.parquet")
    found = {}
    for name, operators in (("plain", ""), ("session", "OPERATORS (auto_session(short = '20 examples'))")):
        query = f"SELECT * FROM parquet.`{path}`"
        session.sql(f"TRAIN MODEL {name} USING xftrl (alpha = 0.1) TIME ts {operators} WITH (batch_size = 100) AS {query}")
        found[name] = metrics(session, f"MODEL {name}")["auc"]
    assert found["session"] > found["plain"] + 0.03


@costly
@embedded
def test_rows_held_out_are_learned_with_the_rates_of_those_before(session: xpsql.Session, tmp_path: Path) -> None:
    random, n = np.random.default_rng(0), 5_000
    user, time = random.integers(0, 40, n), pa.array(np.arange(n) * 1_000_000, pa.timestamp("us"))
    label = (random.random(n) < 0.05 + 0.3 * (user % 2)).astype(np.int32)
    path = write(pa.table({"label": label, "user": user, "ts": time}), tmp_path / "held.parquet")
    query = f"SELECT * FROM parquet.`{path}`"
    for name, held in (("whole", ""), ("held", "VALIDATE ON LAST 0.4")):
        clauses = f"TIME ts OPERATORS (auto_session) {held} WITH (batch_size = 200, workers = 1, base_rate = 0.2)"
        session.sql(f"TRAIN MODEL {name} USING xftrl {clauses} AS {query}")
    said = "SELECT predicted_label FROM ML.PREDICT(MODEL {}, ({}))"
    whole, later = (session.sql(said.format(name, query)).arrow()["predicted_label"].to_numpy() for name in ("whole", "held"))
    assert np.abs(later - whole).max() < 0.01


@costly
@embedded
@pytest.mark.parametrize("operators", CHAINS)
@pytest.mark.parametrize(("batch_size", "n"), [(1, 1_000), (128, 20_000)])
def test_random_labels_are_not_predicted(
    session: xpsql.Session, tmp_path: Path, operators: str, batch_size: int, n: int
) -> None:
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "label": random.integers(0, 2, n).astype(np.int32),
            "user": random.zipf(1.5, n) % 1000,
            "day": np.arange(n) // 7,
            "tags": [[f"t{i % 5}", f"u{i % 3}"] for i in range(n)],
            "ts": pa.array(1_700_000_000 + np.arange(n)),
        }
    )
    path = write(table, tmp_path / "random.parquet")
    settings = f"TIME ts OPERATORS ({operators}) WITH (batch_size = {batch_size})"
    session.sql(f"TRAIN MODEL m USING xftrl {settings} AS SELECT * FROM parquet.`{path}`")
    assert metrics(session, "MODEL m")["auc"] == pytest.approx(0.5, abs=4 * np.sqrt(1 / (12 * n / 4)))


@costly
@embedded
@pytest.mark.parametrize("operators", [CHAINS[0], f"decay(half_life = '1 hour'), {CHAINS[1]}"])
def test_each_pass_is_offered_what_the_first_was_and_the_version_has_the_counts_of_one(
    session: xpsql.Session, tmp_path: Path, operators: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[BatchId, np.ndarray[Any, Any]] = {}

    def recorded(batch: Batch, offered: dict[str, Any]) -> Any:
        found[batch.id] = np.array(offered["weights"])
        return offered_of(batch, offered)

    monkeypatch.setattr("xpsql.platform.training.online.worker.offered_of", recorded)
    whole = log(3_000)
    days = [write(whole.slice(start, 1_500), tmp_path / f"{start}.parquet") for start in (0, 1_500)]
    counts = []
    for name, passes in (("once", 1), ("thrice", 3)):
        train(session, name, days[0], operators, f"{SETTINGS}, passes = {passes}")
        found.clear()
        session.sql(f"CONTINUE MODEL {name} WITH (passes = {passes}) AS {QUERY.format(days[1])}")
        stored = [rows(session, name, version) for version in (1, 2)]
        counts.append([{k: (r["session_shows"], r["session_clicks"]) for k, r in version.items()} for version in stored])
    assert counts[1] == counts[0]
    assert len(found) == 3 * 8
    for batch, offered in found.items():
        first = found[batch._replace(pass_number=0)]
        np.testing.assert_array_equal(np.where(first == 0, 0, offered), first)
        np.testing.assert_allclose(offered, first, atol=1e-6)  # a row that has counted nothing beside none at all


@costly
@pytest.mark.parametrize(
    ("engine", "settings"),
    [("duckdb", "workers = 2, shards = 2"), ("spark", "workers = 2, shards = 2, sync = 'bsp'")],
    indirect=["engine"],
)
def test_several_workers_count_one_pass(session: xpsql.Session, tmp_path: Path, settings: str) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    train(session, "m", path, "auto_session (long = '1000000000 examples')", f"batch_size = 200, passes = 2, {settings}")
    found = rows(session, "m")
    assert len(found) > 400
    assert all(row["session_shows"][2] == pytest.approx(row["count"] / 2, rel=1e-5) for row in found.values())


@costly
@embedded
def test_a_training_that_stops_by_rows_held_out_keeps_the_counts_of_one_pass(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(1_500), tmp_path / "log.parquet")
    clauses = "OPERATORS (auto_session (long = '1000000000 examples')) VALIDATE ON LAST 0.2"
    settings = "WITH (batch_size = 50, passes = 12, patience = 1, workers = 1)"
    session.sql(f"TRAIN MODEL m USING xftrl (alpha = 0.5) IGNORE (ts) {clauses} {settings} AS {QUERY.format(path)}")
    best = session.models.version("m").manifest.learned.best_pass
    assert best is not None
    assert best < 11
    found = rows(session, "m").values()
    assert all(row["session_shows"][2] == pytest.approx(row["count"] / (best + 1), rel=1e-5) for row in found)


@lengthy
@costly_after_first
@embedded
@pytest.mark.parametrize("operators", CHAINS)
def test_continue_equals_one_training_on_both_days(session: xpsql.Session, tmp_path: Path, operators: str) -> None:
    whole = log(4_000)
    days = [write(whole.slice(start, 2_000), tmp_path / f"{start}.parquet") for start in (0, 2_000)]
    train(session, "days", days[0], operators)
    session.sql(f"CONTINUE MODEL days AS {QUERY.format(days[1])}")
    train(session, "whole", write(whole, tmp_path / "whole.parquet"), operators)
    found, expected = rows(session, "days"), rows(session, "whole")
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for column, value in row.items():
            assert found[key][column] == pytest.approx(value, rel=1e-3, abs=1e-5), column


@costly
@pytest.mark.parametrize(("engine", "operators"), [("spark", CHAINS[0]), ("duckdb", CHAINS[1])], indirect=["engine"])
def test_scoring_sees_the_rates_that_the_next_training_batch_would_see(
    session: xpsql.Session, tmp_path: Path, operators: str
) -> None:
    whole = log(2_600)
    day, next_batch = (write(whole.slice(*part), tmp_path / f"{part[0]}.parquet") for part in ((0, 2_400), (2_400, 200)))
    train(session, "m", day, operators)
    scored = metrics(session, f"MODEL m, ({QUERY.format(next_batch)})")
    session.sql(f"CONTINUE MODEL m AS {QUERY.format(next_batch)}")
    learned = metrics(session, "MODEL m")
    assert {name: learned[name] for name in scored} == pytest.approx(scored, rel=1e-4)


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    ("engine", "settings"),
    [("duckdb", "workers = 1, shards = {}"), ("spark", "workers = 2, sync = 'bsp', shards = {}")],
    indirect=["engine"],
)
def test_any_number_of_shards_gives_the_same_rows(session: xpsql.Session, tmp_path: Path, settings: str) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    for name, shards in (("one", 1), ("many", 3)):
        train(session, name, path, CHAINS[1], f"batch_size = 200, {settings.format(shards)}")
    assert rows(session, "one") == rows(session, "many")


@slow  # XLA's older way of loops, by which make test compiles, rounds by the size
@embedded
def test_rows_do_not_depend_on_the_sizes_that_arrays_are_padded_to(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    found = []
    for room in (0, 1, 40):
        monkeypatch.setattr(Ladder, "size", lambda _, n, room=room: rung(n + room))
        train(session, f"m{room}", path, CHAINS[0], "batch_size = 100, workers = 2, shards = 2, sync = 'bsp'")
        found.append(rows(session, f"m{room}"))
    assert found[1] == found[0]
    assert found[2] == found[0]


@costly
@embedded
def test_the_first_table_alone_keeps_the_rates_and_every_slot_has_its_inputs(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING fm TIME ts OPERATORS (auto_session) AS {QUERY.format(path)}")
    weights, vectors = session.models.version("m").manifest.tables
    assert {"session_shows": 3, "session_clicks": 3, "offered": 3}.items() <= weights.columns.items()
    assert not {"session_shows", "offered"} & vectors.columns.keys()
    found = session.sql("SELECT `table`, slot, offered FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
    assert all((row["offered"] is None) == (row["table"] == "vectors") for row in found)
    assert max(abs(value) for row in found if row["slot"] == "user" and row["offered"] for value in row["offered"]) > 0.1
    slots = session.sql("SELECT DISTINCT slot FROM ML.WEIGHTS(MODEL m)").arrow()["slot"].to_pylist()
    inputs = {f"{slot}:ctr_{horizon}" for slot in ("user", "item", "tags") for horizon in ("short", "mid", "long")}
    assert set(slots) == {"user", "item", "tags", "(intercept)"} | inputs


@embedded
def test_a_version_cannot_be_continued_without_the_inputs_that_it_learned_from(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(500), tmp_path / "log.parquet")
    train(session, "m", path, "auto_session")
    with pytest.raises(xpsql.StatementError, match=r"CONTINUE needs the operators that offer .*user:ctr_long"):
        session.sql(f"CONTINUE MODEL m OPERATORS (safety) AS {QUERY.format(path)}")


@costly
@embedded
def test_a_version_without_it_can_be_continued_with_it_and_with_another_slot(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    session.sql(f"CONTINUE MODEL m OPERATORS (auto_session) AS SELECT label, user FROM parquet.`{path}`")
    session.sql(f"CONTINUE MODEL m AS SELECT label, user, item FROM parquet.`{path}`")
    numbers = {slot.name: slot.number for slot in session.models.version("m").manifest.slots}
    assert len(set(numbers.values())) == len(numbers) == 2 + 2 * 3 + 1
    assert numbers["user"] == 0
    assert numbers["item"] == 1
    assert metrics(session, "MODEL m")["auc"] > 0.6


@embedded
def test_an_export_has_what_an_example_gets_of_each_feature(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(500), tmp_path / "log.parquet")
    train(session, "m", path, "auto_session")
    session.sql("EXPORT MODEL m TO TABLE exported")
    exported = session.sql("SELECT key, offered FROM exported").arrow().to_pylist()
    assert {row["key"]: row["offered"] for row in exported} == {key: row["offered"] for key, row in rows(session, "m").items()}


@embedded
@pytest.mark.parametrize(
    ("uses", "reason"),
    [
        ("slrm (item = user, history = tags) IGNORE (ts)", "takes no rates of items: its features are pairs of items only"),
        (
            "two_tower (query = (tags), item = (user)) IGNORE (ts, label)",
            "takes no rates of clicks: it learns only from items taken",
        ),
        (
            "word2vec IGNORE (label, ts, user)",
            "takes no rates of clicks: it learns which values occur together, without labels",
        ),
    ],
)
def test_algorithms_that_take_no_other_slots_take_no_rates(
    session: xpsql.Session, tmp_path: Path, uses: str, reason: str
) -> None:
    path = write(log(100).select(["label", "ts", "user", "tags"]), tmp_path / "log.parquet")
    with pytest.raises(
        xpsql.StatementError, match=rf"OPERATORS \(auto_session\) offers inputs .* {reason}.*Leave the operator out"
    ):
        session.sql(f"TRAIN MODEL m USING {uses} OPERATORS (auto_session) AS SELECT * FROM parquet.`{path}`")

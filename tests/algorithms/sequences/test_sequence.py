"""A model of users' events finds what comes next by the order of what came before, and scores what is asked of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, slow_elsewhere
from tests.training.log import embedded, session, write
from xpsql.platform.errors import DataError, StatementError

__all__ = ["session"]

ITEMS = 24
SMALL = "sequence (encoder = 'hstu', dim = 32, length = 32, layers = 2, dropout = 0)"


def planted(users: int = 400, events: int = 14, seed: int = 0) -> pa.Table:
    """Return events of users, in any order, each item of which the two before it determine."""
    random = np.random.default_rng(seed)
    follows = random.integers(0, ITEMS, (ITEMS, ITEMS))
    rows = []
    for user in range(users):
        items = random.integers(0, ITEMS, 2).tolist()
        while len(items) < events:
            items.append(int(follows[items[-2], items[-1]]))
        rows += [(f"u{user}", 1_700_000_000 + 60 * number, item) for number, item in enumerate(items)]
    random.shuffle(rows)
    return pa.table(dict(zip(("user", "ts", "item"), map(list, zip(*rows, strict=True)), strict=True)))


def train(session: xpsql.Session, path: Path, how: str = SMALL, more: str = "", settings: str = "passes = 1") -> None:
    session.sql(
        f"TRAIN MODEL m USING {how} {more} GROUP user TIME ts WITH ({settings}) AS SELECT user, ts, item FROM parquet.`{path}`"
    )


@costly
@slow_elsewhere
def test_the_next_item_is_found_by_the_two_before_it_where_a_popular_one_is_not(session: xpsql.Session, tmp_path: Path) -> None:
    table = planted()
    path = write(table, tmp_path / "log.parquet", 10_000)
    last = 1_700_000_000 + 60 * 13
    session.sql(
        f"TRAIN MODEL m USING {SMALL} GROUP user TIME ts WITH (passes = 40, batch_size = 512) "
        f"AS SELECT user, ts, item FROM parquet.`{path}` WHERE ts < {last}"
    )
    items = f"ITEMS (SELECT id AS item FROM range({ITEMS}))"
    (row,) = (
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`), {items}, 1)").arrow().to_pylist()
    )
    of_last = table.filter(pa.compute.equal(table["ts"], last))["item"].to_numpy()
    popular = np.bincount(table["item"].to_numpy()).argmax()
    assert row["examples"] == 400
    assert row["recall"] > 0.85 > 0.3 > (of_last == popular).mean()
    before = f"(SELECT user, ts, item FROM parquet.`{path}` WHERE ts < {last})"
    found = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {before}, 1, {items})").arrow()
    assert found.column_names == ["user", "ts", "item", "rank", "score"]
    taken = {row["user"]: row["item"] for row in table.to_pylist() if row["ts"] == last}
    hits = np.mean([taken[row["user"]] == row["item"] for row in found.to_pylist()])
    assert hits == pytest.approx(row["recall"], abs=0.05)
    asked = f"({before[1:-1]} UNION ALL SELECT DISTINCT user, {last}, CAST(NULL AS BIGINT) FROM parquet.`{path}`)"
    found = session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL m, {asked}, 1, {items})").arrow()
    assert np.mean([taken[row["user"]] == row["item"] for row in found.to_pylist()]) == pytest.approx(row["recall"])
    (told,) = session.sql(f"SELECT DISTINCT ts FROM ({asked}) WHERE item IS NULL").arrow().to_pylist()
    assert set(found["ts"].to_pylist()) == {told["ts"]}


RANK = "sequence (encoder = 'hstu', dim = 16, length = 16, hidden = (16), dropout = 0, actions = (did))"


def clicks(users: int = 300, events: int = 12, seed: int = 0) -> pa.Table:
    """Return events with two labels: a click where the event before of the user was none, a view where the item is even; `did`
    is the click once more, for later events."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        before = int(random.integers(0, 2))
        for number in range(events):
            item, click = int(random.integers(0, ITEMS)), int(before == 0)
            click = click if random.random() < 0.95 else 1 - click
            rows.append((f"u{user}", 1_700_000_000 + 60 * number, item, click, 1 - item % 2, f"d{click}", f"h{number % 3}"))
            before = click
    names = ("user", "ts", "item", "click", "view", "did", "hour")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def ranker(session: xpsql.Session, tmp_path: Path) -> str:
    """Train a ranking model m, and return the text of its log."""
    path = write(clicks(), tmp_path / "clicks.parquet", 10_000)
    session.sql(
        f"TRAIN MODEL m USING {RANK} LABEL click, view GROUP user TIME ts WITH (passes = 12, batch_size = 256) "
        f"AS SELECT * FROM parquet.`{path}`"
    )
    return f"parquet.`{path}`"


@costly
def test_labels_are_predicted_from_what_came_of_the_events_before(session: xpsql.Session, tmp_path: Path) -> None:
    log = ranker(session, tmp_path)
    rows = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM {log} WHERE ts > 1700000000))").arrow().to_pylist()
    auc = {row["label"]: row["auc"] for row in rows}
    assert auc["click"] > 0.93
    assert auc["view"] > 0.97
    assert all(row["gauc"] is not None for row in rows)


@costly
@embedded
def test_candidates_scored_together_are_scored_as_each_alone(session: xpsql.Session, tmp_path: Path) -> None:
    log = ranker(session, tmp_path)
    past = f"SELECT user, ts, item, did, hour FROM {log} WHERE user IN ('u1', 'u2') AND ts < 1700000500"

    def scored(items: str) -> dict[tuple[str, int], tuple[float, float]]:
        asked = (
            f"SELECT user, 1700000500 AS ts, id AS item, CAST(NULL AS STRING) AS did, 'h1' AS hour "
            f"FROM (SELECT DISTINCT user FROM {log} WHERE user IN ('u1', 'u2')), range({ITEMS}) WHERE id IN ({items})"
        )
        found = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({past} UNION ALL {asked})) WHERE ts = 1700000500").arrow()
        return {(row["user"], row["item"]): (row["predicted_click"], row["predicted_view"]) for row in found.to_pylist()}

    together = scored(", ".join(map(str, range(ITEMS))))
    assert len(together) == 2 * ITEMS
    for item in (0, 5, 23):
        for key, alone in scored(str(item)).items():
            assert together[key] == pytest.approx(alone, abs=1e-6)


@costly
@embedded
def test_what_came_of_an_event_changes_no_prediction_of_it_nor_of_its_moment(session: xpsql.Session, tmp_path: Path) -> None:
    log = ranker(session, tmp_path)

    def scored(did: str) -> list[tuple[int, float]]:
        rows = (
            f"SELECT user, CAST(ts / 120 AS BIGINT) * 120 AS ts, item, {did} AS did, hour, ts AS t FROM {log} WHERE user = 'u7'"
        )
        found = session.sql(f"SELECT t, predicted_click FROM ML.PREDICT(MODEL m, ({rows})) ORDER BY t").arrow().to_pylist()
        return [(row["t"], row["predicted_click"]) for row in found]

    moment = 1700000000 + 60 * 6
    here = moment // 120 * 120
    before, after = scored("did"), scored("CASE WHEN ts = 1700000360 THEN 'd9' ELSE did END")
    changed = [t for (t, one), (_, other) in zip(before, after, strict=True) if one != other]
    assert changed
    assert min(changed) // 120 * 120 > here


@costly
@embedded
def test_two_trainings_of_one_worker_end_with_the_same_bits(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(planted(80, 10), tmp_path / "log.parquet", 10_000)
    for name in ("one", "two"):
        session.sql(
            f"TRAIN MODEL {name} USING {SMALL} GROUP user TIME ts WITH (passes = 2, batch_size = 128, workers = 1) "
            f"AS SELECT user, ts, item FROM parquet.`{path}`"
        )
    items = f"ITEMS (SELECT id AS item FROM range({ITEMS}))"
    best = [
        session.sql(f"SELECT * FROM ML.RECOMMEND(MODEL {name}, TABLE parquet.`{path}`, 3, {items})").arrow().to_pylist()
        for name in ("one", "two")
    ]
    assert best[0] == best[1]


@pytest.mark.parametrize(
    ("how", "clauses", "query", "message"),
    [
        ("sequence", "GROUP user", "user, ts, item", "GROUP and TIME say whose event"),
        ("sequence", "TIME ts", "ts, item", "GROUP and TIME say whose event"),
        ("sequence (length = 0)", "GROUP user TIME ts", "user, ts, item", "length"),
        ("sequence (encoder = 'lstm')", "GROUP user TIME ts", "user, ts, item", "hstu, sasrec"),
        ("sequence (heads = 3)", "GROUP user TIME ts", "user, ts, item", "heads = 3 must divide dim = 64"),
        ("sequence (item = thing)", "GROUP user TIME ts", "user, ts, item", "names 'thing', which is not a slot"),
        ("sequence (actions = item)", "GROUP user TIME ts", "user, ts, item", "is of the item and of actions"),
        ("sequence", "GROUP user TIME ts", "user, ts, item, 1 AS other", "the slot other is neither"),
        (
            "sequence (actions = did)",
            "LABEL did GROUP user TIME ts",
            "user, ts, item, 1 AS did",
            "did is the label. Later events",
        ),
        ("sequence", "GROUP user TIME item", "user, item, 'a' AS ts", "names 'item'|not a slot"),
        ("sequence", "GROUP score TIME ts", "1.5D AS score, ts, item", "expects a category, such as a user"),
    ],
)
@embedded
def test_what_cannot_be_a_sequence_is_refused_before_it_is_learned(
    session: xpsql.Session, tmp_path: Path, how: str, clauses: str, query: str, message: str
) -> None:
    path = write(planted(5, 4), tmp_path / "log.parquet", 100)
    with pytest.raises(StatementError, match=message) as raised:
        session.sql(f"TRAIN MODEL m USING {how} {clauses} AS SELECT {query} FROM parquet.`{path}`")
    assert raised.value.position is not None


@costly
@embedded
def test_an_event_without_a_time_is_refused_and_one_without_a_user_stands_alone(session: xpsql.Session, tmp_path: Path) -> None:
    table = pa.table({"user": ["a", "a", None, None], "ts": [1, None, 3, 4], "item": [1, 2, 3, 4]})
    with pytest.raises(
        DataError, match=r"ts says when an event was \(TIME\) and must not be NULL; a row of the query's result has NULL"
    ):
        train(session, Path(write(table, tmp_path / "time.parquet", 100)))
    path = write(table.slice(2), tmp_path / "user.parquet", 100)
    train(session, Path(path))
    vectors = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT user, ts, item FROM parquet.`{path}`))").arrow()
    first, second = vectors["predicted_vector"].to_pylist()
    assert first == second  # nothing is known before either


@costly
@embedded
def test_a_version_goes_on_with_new_events_and_its_description_names_users_and_times(
    session: xpsql.Session, tmp_path: Path
) -> None:
    path = write(planted(60, 8), tmp_path / "log.parquet", 10_000)
    train(session, Path(path))
    session.sql(f"CONTINUE MODEL m AS SELECT user, ts, item FROM parquet.`{path}` WHERE ts > 1700000120")
    slots = {row["slot"]: row["kind"] for row in session.sql("SELECT * FROM ML.FEATURE_INFO(MODEL m)").arrow().to_pylist()}
    assert session.models.version("m").number == 2
    assert slots["item"] == "categorical"


@costly
@embedded
def test_rows_held_out_are_whole_users_or_a_query(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(planted(60, 8), tmp_path / "log.parquet", 10_000)
    train(session, Path(path), more="VALIDATE ON LAST 0.2", settings="passes = 2")
    rows = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m) WHERE validation").arrow().to_pylist()
    assert [row["recall"] is not None for row in rows] == [True, True]
    with pytest.raises(StatementError, match=r"VALIDATE ON 0\.2 would take single events out"):
        train(session, Path(path), more="VALIDATE ON 0.2")


@embedded
def test_explain_says_that_rows_are_sorted_and_lists_users_and_times(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(planted(20, 5), tmp_path / "log.parquet", 10_000)
    rows = session.sql(
        f"EXPLAIN TRAIN MODEL m USING {SMALL} GROUP user TIME ts AS SELECT user, ts, item FROM parquet.`{path}`"
    ).arrow()
    found = {row["property"]: row["value"] for row in rows.to_pylist()}
    assert any("rows of a user are sorted by time" in value for value in found.values())
    assert any(value.startswith("user") for value in found.values())
    (number,) = re.findall(r"^([\d.]+) kFLOP an event, of users with 32 events", found["compute"])
    layers = 3 * 2 * 2 * (5 * 32 * 32 + 2 * 64 * 32)  # of a window in a strip of twice its length
    assert 0.5 * layers < float(number) * 1e3 < 3 * layers


@costly
@embedded
def test_events_of_weight_0_are_context_alone(session: xpsql.Session, tmp_path: Path) -> None:
    table = planted(60, 8)
    path = write(table, tmp_path / "log.parquet", 10_000)
    rows = f"SELECT user, ts, item, CAST(ts >= 1700000300 AS DOUBLE) AS new FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL m USING {SMALL} WEIGHT new GROUP user TIME ts WITH (batch_size = 480) AS {rows}")
    other = rows.replace("item,", "CASE WHEN ts = 1700000240 THEN 99 ELSE item END AS item,")
    session.sql(f"TRAIN MODEL n USING {SMALL} WEIGHT new GROUP user TIME ts WITH (batch_size = 480) AS {other}")
    losses = [
        session.sql(f"SELECT mae FROM ML.TRAINING_INFO(MODEL {name})").arrow()["mae"].to_pylist()[-1] for name in ("m", "n")
    ]
    assert losses[0] != losses[1]

"""Training on the embedded engine, from statement to rows: the same every time, exact in counts, right in predictions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import embedded, log, session, write
from xpsql.warehouse.trainings.progress import LEARNING, READING

__all__ = ["session"]

ALL = "SELECT * FROM parquet.`{}`"
TEXT = "SELECT label, ts, user, item FROM parquet.`{}`"


def row_bytes(session: xpsql.Session, model: str) -> list[bytes]:
    return [path.read_bytes() for path in session.models.version(model).files("weights")]


def weights(session: xpsql.Session, model: str) -> dict[tuple[str, int], dict[str, Any]]:
    table = session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL {model})").arrow()
    return {(row["slot"], row["key"]): row for row in table.to_pylist()}


def one(session: xpsql.Session, text: str) -> dict[str, Any]:
    (row,) = session.sql(text).arrow().to_pylist()
    return dict(row)


@lengthy
@costly_after_first
def test_every_kind_of_slot_learns_and_predicts(session: xpsql.Session, tmp_path: Path) -> None:
    train, test = write(log(20_000), tmp_path / "train.parquet"), write(log(4_000, seed=2), tmp_path / "test.parquet")
    made = one(session, f"TRAIN MODEL m USING xftrl IGNORE (ts) AS {ALL.format(train)}")
    assert (made["model"], made["version"], made["status"], made["examples"]) == ("m", 1, "ready", 20_000)
    metrics = one(session, f"SELECT * FROM ML.EVALUATE(MODEL m, ({ALL.format(test)}))")
    assert metrics["examples"] == 4_000
    assert metrics["auc"] > 0.7
    assert metrics["pcopc"] == pytest.approx(1, abs=0.1)
    predicted = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({ALL.format(test)}))").arrow()
    assert predicted.schema.names == [*log(1).schema.names, "predicted_label"]
    assert predicted.drop_columns("predicted_label").to_pylist() == log(4_000, seed=2).to_pylist()
    checked = one(
        session,
        f"SELECT auc(label, predicted_label) AS auc, pcopc(label, predicted_label) AS pcopc "
        f"FROM ML.PREDICT(MODEL m, ({ALL.format(test)}))",
    )
    assert checked["auc"] == pytest.approx(metrics["auc"], abs=1e-4)
    assert checked["pcopc"] == pytest.approx(metrics["pcopc"], rel=1e-5)


@slow_elsewhere
def test_counts_are_the_occurrences_in_the_data_for_every_key(session: xpsql.Session, tmp_path: Path) -> None:
    table = log(3_000)
    path = write(table, tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts, vector) WITH (passes = 2, batch_size = 100) AS {ALL.format(path)}")
    expected: Counter[tuple[str, Any]] = Counter()
    clicks: Counter[tuple[str, Any]] = Counter()
    for row in table.to_pylist():
        features = [("user", row["user"]), ("item", row["item"]), ("(intercept)", "")]
        features += [("tags", tag) for tag in row["tags"]] + [("scores", name) for name, _ in row["scores"]]
        features += [("price", "")] if row["price"] is not None else []
        expected.update(features)
        clicks.update(f for f in features if row["label"])
    values = pa.table(
        {"slot": [s for s, _ in expected], "value": [None if v is None or v == "" else str(v) for _, v in expected]}
    )
    write(values, tmp_path / "values.parquet")
    keys = (
        session.sql(f"SELECT xxhash64(slot, value) AS key FROM parquet.`{tmp_path / 'values.parquet'}`")
        .arrow()["key"]
        .to_pylist()
    )
    found = weights(session, "m")
    assert {(slot, key): 2 * n for ((slot, _), n), key in zip(expected.items(), keys, strict=True)} == {
        at: row["count"] for at, row in found.items()
    }
    assert {(slot, key): 2 * clicks[slot, value] for (slot, value), key in zip(expected, keys, strict=True)} == {
        at: row["clicks"] for at, row in found.items()
    }


@embedded
def test_two_trainings_give_the_same_bytes(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(5_000), tmp_path / "log.parquet")
    for name in ("a", "b"):
        session.sql(f"TRAIN MODEL {name} USING xftrl IGNORE (ts) AS {ALL.format(path)}")
    assert row_bytes(session, "a") == row_bytes(session, "b")


@costly
def test_two_trainings_on_a_join_give_the_same_bytes(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(30_000), tmp_path / "log.parquet", row_group_rows=2_000)
    items = pa.table({"item": np.arange(300), "shop": [f"shop{i % 17}" for i in range(300)]})
    write(items, tmp_path / "items.parquet", row_group_rows=10)
    shops = f"parquet.`{tmp_path / 'items.parquet'}`"
    query = f"SELECT l.label, l.user, l.item, i.shop FROM parquet.`{path}` l JOIN {shops} i ON l.item = i.item"
    for name in ("a", "b", "c"):
        session.sql(f"TRAIN MODEL {name} USING xftrl AS {query}")
    assert row_bytes(session, "a") == row_bytes(session, "b") == row_bytes(session, "c")


@costly_after_first
def test_a_gang_of_workers_gives_the_same_bytes_each_time(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(5_000), tmp_path / "log.parquet")
    for name in ("a", "b"):
        session.sql(f"TRAIN MODEL {name} USING xftrl IGNORE (ts) WITH (workers = 3, sync = 'bsp') AS {ALL.format(path)}")
    assert row_bytes(session, "a") == row_bytes(session, "b")


@costly
@pytest.mark.parametrize(
    ("engine", "settings"),
    [
        ("duckdb", "workers = 3"),
        ("duckdb", "workers = 3, sync = 'ssp', slack = 1"),
        ("duckdb", "workers = 2, shards = 3"),
        ("spark", "workers = 2, shards = 3"),
    ],
    indirect=["engine"],
)
def test_free_workers_lose_nothing(session: xpsql.Session, tmp_path: Path, settings: str) -> None:
    path = write(log(6_000), tmp_path / "log.parquet", row_group_rows=500)
    session.sql(f"TRAIN MODEL one USING xftrl WITH (batch_size = 64) AS {TEXT.format(path).replace('ts, ', '')}")
    session.sql(f"TRAIN MODEL many USING xftrl WITH (batch_size = 64, {settings}) AS {TEXT.format(path).replace('ts, ', '')}")
    one_, many = weights(session, "one"), weights(session, "many")
    assert {at: (r["count"], r["clicks"], r["shows"]) for at, r in one_.items()} == {
        at: (r["count"], r["clicks"], r["shows"]) for at, r in many.items()
    }


@embedded
def test_any_number_of_shards_gives_the_same_weights(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(3_000), tmp_path / "log.parquet")
    for shards in (1, 3):
        session.sql(f"TRAIN MODEL s{shards} USING xftrl IGNORE (ts) WITH (shards = {shards}) AS {ALL.format(path)}")
    assert weights(session, "s1") == weights(session, "s3")


@costly
def test_continue_equals_one_training_on_both_days(session: xpsql.Session, tmp_path: Path) -> None:
    days = [write(log(2_000, seed), tmp_path / f"{seed}.parquet") for seed in (1, 2)]
    session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts, price) WITH (base_rate = 0.3) AS {ALL.format(days[0])}")
    session.sql(f"CONTINUE MODEL m AS {ALL.format(days[1])}")
    (tmp_path / "both").mkdir()
    for number, day in enumerate(days):
        (tmp_path / "both" / f"{number}.parquet").write_bytes(day.read_bytes())
    session.sql(f"TRAIN MODEL both USING xftrl IGNORE (ts, price) WITH (base_rate = 0.3) AS {ALL.format(tmp_path / 'both')}")
    assert weights(session, "m") == weights(session, "both")
    versions = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert [(v["version"], v["served"], v["examples"]) for v in versions] == [(1, False, 2_000), (2, True, 2_000)]


@costly
@embedded
@pytest.mark.parametrize("algorithm", ["xftrl", "fm"])
@pytest.mark.parametrize("changed", ["USING {} (alpha = 1)", "OPERATORS (ftrl (beta = 5, l1 = 0.1, l2 = 10))"])
def test_weights_stay_where_a_version_continues_with_other_options(
    session: xpsql.Session, tmp_path: Path, algorithm: str, changed: str
) -> None:
    days = [write(log(rows, seed), tmp_path / f"{seed}.parquet") for seed, rows in ((1, 2_000), (2, 1))]
    session.sql(f"TRAIN MODEL m USING {algorithm} IGNORE (ts) AS {TEXT.format(days[0])}")
    session.sql(f"CONTINUE MODEL m {changed.format(algorithm)} AS {TEXT.format(days[1])}")
    query = "SELECT * FROM ML.WEIGHTS(MODEL m VERSION {})"
    before, after = (
        {(row.get("table"), row["key"]): row for row in session.sql(query.format(version)).arrow().to_pylist()}
        for version in (1, 2)
    )
    stayed = [(old, after[at]) for at, old in before.items() if old["updates"] == after[at]["updates"]]
    assert len(stayed) > 100
    name = "weight" if algorithm == "xftrl" else "weights"
    for old, new in stayed:
        assert new[name] == pytest.approx(old[name], rel=1e-6, abs=1e-9)


@costly
@embedded
def test_options_that_another_optimizer_takes_the_place_of_are_not_handed_on(session: xpsql.Session, tmp_path: Path) -> None:
    query = TEXT.format(write(log(500), tmp_path / "log.parquet"))
    session.sql(f"TRAIN MODEL m USING xftrl (alpha = 0.3, intercept = false) IGNORE (ts) AS {query}")
    session.sql(f"CONTINUE MODEL m OPERATORS (ftrl (alpha = 0.2)) AS {query}")
    assert session.models.version("m").manifest.algorithm.options == {"intercept": False}
    with pytest.raises(xpsql.StatementError, match="Option alpha of algorithm xftrl has no effect"):
        session.sql(f"CONTINUE MODEL m USING xftrl (alpha = 0.3) AS {query}")


UPPER = "label AS LABEL, user AS USER, price AS PRICE, tags AS TAGS"


@costly
@pytest.mark.parametrize(
    ("engine", "columns"), [("duckdb", UPPER.replace("user", "lower(user)")), ("spark", UPPER)], indirect=["engine"]
)
def test_a_version_continues_with_columns_in_other_case(session: xpsql.Session, tmp_path: Path, columns: str) -> None:
    days = [write(log(1_000, seed), tmp_path / f"{seed}.parquet") for seed in (1, 2)]
    query = "SELECT {} FROM parquet.`{}`"
    for model, after in (("other", columns), ("same", columns.lower())):
        session.sql(
            f"TRAIN MODEL {model} USING linear_regression WITH (share = (tags AS user)) "
            f"AS {query.format(UPPER.lower(), days[0])}"
        )
        session.sql(f"CONTINUE MODEL {model} AS {query.format(after, days[1])}")
    assert weights(session, "other") == weights(session, "same")
    other, same = (session.models.version(model).manifest for model in ("other", "same"))
    assert (other.slots, other.roles, other.statistics) == (same.slots, same.roles, same.statistics)


@embedded
def test_a_version_continues_with_its_labels(session: xpsql.Session, tmp_path: Path) -> None:
    query = f"SELECT label, user, CAST(item > 9 AS INT) AS buy FROM parquet.`{write(log(500), tmp_path / 'log.parquet')}`"
    session.sql(f"TRAIN MODEL m USING xftrl LABEL label, buy AS {query}")
    for other in ("buy, label", "label", "buy", "user"):
        with pytest.raises(xpsql.StatementError, match=f"names {other} and was label, buy in version 1") as caught:
            session.sql(f"CONTINUE MODEL m LABEL {other} AS {query}")
        assert caught.value.position is not None
        assert caught.value.position.text.startswith("LABEL")
    session.sql(f"CONTINUE MODEL m LABEL Label, Buy AS {query}")
    assert session.models.version("m").manifest.roles.labels == ("label", "buy")


@embedded
def test_a_version_continues_with_columns_that_were_ignored(session: xpsql.Session, tmp_path: Path) -> None:
    query = f"SELECT label, ts, user FROM parquet.`{write(log(500), tmp_path / 'log.parquet')}`"
    session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts) AS {query}")
    with pytest.raises(xpsql.StatementError, match="IGNORE and TIME both name 'ts'"):
        session.sql(f"CONTINUE MODEL m TIME ts AS {query}")
    session.sql(f"CONTINUE MODEL m IGNORE () TIME ts AS {query}")
    assert (session.models.version("m").manifest.roles.ignore, session.models.version("m").manifest.roles.time) == ((), "ts")


@embedded
def test_a_version_that_continues_another_draws_anew(session: xpsql.Session, tmp_path: Path) -> None:
    users = pa.table({"label": np.arange(400) % 2, "user": np.arange(400)})
    query = ALL.format(write(users, tmp_path / "day.parquet"))
    operators = "OPERATORS (admit (probability = 0.2), ftrl) WITH (batch_size = 400)"
    session.sql(f"TRAIN MODEL m USING xftrl (intercept = false) {operators} AS {query}")
    once = len(weights(session, "m"))
    session.sql(f"CONTINUE MODEL m AS {query}")
    assert once == pytest.approx(400 * 0.2, abs=30)
    assert len(weights(session, "m")) == pytest.approx(400 * (1 - 0.8**2), abs=30)


@costly
def test_expressions_and_filters_are_read_in_place_and_equal_the_staged_query(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(4_000), tmp_path / "log.parquet")
    query = (
        f"SELECT label, concat(user, '-', item % 10) AS cross_, item, price * 2 AS price FROM parquet.`{path}` WHERE item > 3"
    )
    session.sql(f"TRAIN MODEL inplace USING xftrl AS {query}")
    session.sql(f"CREATE TABLE staged AS {query}")
    session.sql("TRAIN MODEL fromtable USING xftrl AS SELECT * FROM staged")
    assert {at: r["count"] for at, r in weights(session, "inplace").items()} == {
        at: r["count"] for at, r in weights(session, "fromtable").items()
    }


@embedded
def test_a_weight_of_zero_teaches_nothing_and_two_teaches_as_two_examples_of_one_batch(
    session: xpsql.Session, tmp_path: Path
) -> None:
    once = pa.table({"label": [1, 0], "x": ["a", "b"], "w": [2.0, 0.0]})
    twice = pa.table({"label": [1, 1], "x": ["a", "a"]})
    write(once, tmp_path / "once.parquet")
    write(twice, tmp_path / "twice.parquet")
    session.sql(f"TRAIN MODEL once USING xftrl WEIGHT w AS {ALL.format(tmp_path / 'once.parquet')}")
    session.sql(f"TRAIN MODEL twice USING xftrl AS {ALL.format(tmp_path / 'twice.parquet')}")
    first = {at: r["weight"] for at, r in weights(session, "once").items()}
    assert sorted(first.values())[:1] == [0.0]
    expected = {at: r["weight"] for at, r in weights(session, "twice").items()}
    assert {at: first[at] for at in expected} == pytest.approx(expected)


@slow_elsewhere
def test_predictions_treat_null_as_training_did_and_unseen_features_as_absent(session: xpsql.Session, tmp_path: Path) -> None:
    table = pa.table({"label": [1, 0] * 4000, "x": [None, "a"] * 4000})
    write(table, tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl WITH (batch_size = 16) AS {ALL.format(tmp_path / 'log.parquet')}")
    query = "SELECT CAST(NULL AS STRING) AS x UNION ALL SELECT 'a' UNION ALL SELECT 'never seen'"
    found = session.sql(f"SELECT x, predicted_label AS p FROM ML.PREDICT(MODEL m, ({query}))").arrow().to_pylist()
    by_value = {row["x"]: row["p"] for row in found}
    assert by_value[None] > 0.9
    assert by_value["a"] < 0.1
    assert 0.1 < by_value["never seen"] < 0.9


@slow_elsewhere
def test_what_is_exported_scores_elsewhere_as_the_documents_say(session: xpsql.Session, tmp_path: Path) -> None:
    price = [None, 1e6, *(float(i % 9) for i in range(298))]
    columns = {
        "label": [i % 2 for i in range(300)],
        "user": [f"u{i % 7}" for i in range(300)],
        "price": price,
        "one": [1.5] * 300,
    }
    path = write(pa.table(columns), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl AS {ALL.format(path)}; EXPORT MODEL m TO '{tmp_path / 'out'}' FORMAT parquet")
    statistics = json.loads((tmp_path / "out" / "_manifest.json").read_text())["statistics"]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    weight = {row["key"]: row["weight"] for row in rows}
    intercept = next(row["weight"] for row in rows if row["slot"] == "(intercept)")
    keys = "feature_key('user', user) AS k, feature_key('price', NULL) AS price_key, feature_key('one', NULL) AS one_key"
    scored = session.sql(f"SELECT *, {keys} FROM ML.PREDICT(MODEL m, ({ALL.format(path)}))").arrow().to_pylist()
    assert {row["price"] for row in scored} == set(price)
    for row in scored:
        score = intercept + weight[row["k"]]
        for slot, count, mean, squares in zip(statistics["scaled"], *statistics["scaler"].values(), strict=True):
            value = 0 if row[slot] is None else (row[slot] - mean) / (np.sqrt(squares / count) or 1)
            score += weight[row[f"{slot}_key"]] * min(max(value, -8), 8)
        assert row["predicted_label"] == pytest.approx(1 / (1 + np.exp(-score)), abs=1e-6)


@embedded
def test_operators_are_composed_in_the_users_order(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    session.sql(
        "TRAIN MODEL m USING xftrl TIME ts OPERATORS (gradient_average(mode = 'sqrt'), staleness_discount, "
        f"safety(max_weight = 0.05), decay(half_life = '1 hour'), ftrl(alpha = 0.5)) AS {ALL.format(path)}"
    )
    info = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()[-1]
    assert info["violations"] > 0
    assert info["max_abs_weight"] == pytest.approx(0.05, rel=1e-3)
    assert info["features"] == len(weights(session, "m"))


@costly
@embedded
@pytest.mark.parametrize(("settings", "stale"), [("workers = 1", False), ("workers = 3, sync = 'bsp', shards = 2", True)])
def test_delay_compensation_changes_what_was_learned_from_old_weights_and_nothing_else(
    session: xpsql.Session, tmp_path: Path, settings: str, stale: bool
) -> None:
    path = write(log(4_000), tmp_path / "log.parquet")
    for name, operators in (("plain", ""), ("delayed", "OPERATORS (delay_compensation(lambda = 0.5))")):
        session.sql(f"TRAIN MODEL {name} USING fm IGNORE (ts) {operators} WITH ({settings}) AS {ALL.format(path)}")
    plain, delayed = (
        np.array([weight for row in weights(session, name).values() for weight in row["weights"]])
        for name in ("plain", "delayed")
    )
    assert (np.abs(plain - delayed).max() > 1e-5) == stale


@slow_elsewhere
def test_explain_starts_nothing_and_names_slots_operators_and_bytes(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    reported = session.sql(f"EXPLAIN TRAIN MODEL m USING xftrl IGNORE (ts) AS {ALL.format(path)}").arrow().to_pylist()
    values = {row["property"]: row["value"] for row in reported}
    assert values["slot price"].startswith("continuous")
    assert values["slot tags"].startswith("multi-valued")
    assert "read in place" in values["input"]
    assert values["rows"] == "2,000"
    assert "bytes" in values["row of weights"]
    assert not (tmp_path / "warehouse" / "models").exists()


@pytest.mark.parametrize("query", ["SELECT * FROM parquet.`{}`", "SELECT * FROM parquet.`{}` ORDER BY ts"])
def test_explain_begins_with_what_people_ask(session: xpsql.Session, tmp_path: Path, query: str) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    shown = session.sql(f"EXPLAIN TRAIN MODEL m USING fm IGNORE (ts) AS {query.format(path)}")
    summary = repr(shown).split("\n\n")[0].splitlines()
    asked = ["model", "algorithm", "rows", "passes", "time", "memory", "stored", "batch size", "workers", "shards"]
    assert [line.split("  ")[0] for line in summary[2:]] == asked
    assert max(map(len, summary)) <= 80
    assert len(repr(shown).splitlines()) == len(shown) + 3


@slow_elsewhere
def test_progress_is_there_for_others_and_the_statement_is_kept(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    statement = f"TRAIN MODEL m USING xftrl(alpha = 0.2) IGNORE (ts) AS {ALL.format(path)}"
    session.sql(statement)
    with xpsql.connect(tmp_path / "warehouse") as other:
        info = other.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()
        assert info[-1]["examples"] == 2_000
        assert info[-1]["examples_per_second"] > 0
        assert other.sql("SHOW TRAIN MODEL m").arrow().to_pylist()[0]["statement"] == statement


@costly
@slow_elsewhere
def test_training_info_tells_where_the_time_went_and_what_was_compiled(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(2_000), tmp_path / "log.parquet")
    statement = f"USING xnn (dim = 5, hidden = (7)) IGNORE (ts) WITH (workers = 1, shards = 1) AS {ALL.format(path)}"
    session.sql(f"TRAIN MODEL m {statement}")
    info = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()[-1]
    steps = {step: info[f"{step}_seconds"] for step in (*READING, *LEARNING)}
    assert all(seconds > 0 for seconds in steps.values()), steps
    assert 0 < info["compilations"] < 25
    assert info["compile_seconds"] > 0
    if session.engine.tasks is None:
        assert sum(steps[step] for step in LEARNING) < 1.1 * info["examples"] / info["examples_per_second"]
        session.sql(f"CONTINUE MODEL m IGNORE (ts) WITH (workers = 1, shards = 1) AS {ALL.format(path)}")
        again = session.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()[-1]
        assert again["compilations"] < info["compilations"]


@embedded
@pytest.mark.parametrize(("rows", "batch_size"), [(49_999, 64), (50_000, 256)])
def test_a_short_log_is_learned_in_small_batches(session: xpsql.Session, tmp_path: Path, rows: int, batch_size: int) -> None:
    path = write(pa.table({"label": np.arange(rows) % 2, "x": np.arange(rows) % 7}), tmp_path / "log.parquet", rows)
    session.sql(f"TRAIN MODEL m USING xftrl AS {ALL.format(path)}")
    info = session.sql("SELECT batch, examples FROM ML.TRAINING_INFO(MODEL m)").arrow().to_pylist()[-1]
    assert info == {"batch": -(-rows // batch_size), "examples": rows}

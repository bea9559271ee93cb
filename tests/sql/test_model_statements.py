"""Models as objects: what SHOW, DESCRIBE, ALTER, DROP, SHRINK, EXPORT and ML.* tell and change."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import embedded
from tests.warehouse.fill import MANIFEST, TABLE, VECTORS, fill, train
from xpsql.platform.errors import ModelError, OptionError, StatementError, XpsqlError
from xpsql.platform.progress import LogReporter
from xpsql.warehouse.dense import write_dense
from xpsql.warehouse.entries import PartEntry, SlotEntry
from xpsql.warehouse.rows import rows_schema


@pytest.fixture
def session(tmp_path: Path, engine: str | SparkSession) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", engine) as session:
        yield session


def rows(session: xpsql.Session, text: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = session.sql(text).arrow().to_pylist()
    return result


@embedded
def test_show_models_tells_the_served_version_of_each(session: xpsql.Session) -> None:
    train(session.models)
    train(session.models, parent=1, metrics={"auc": 0.8})
    session.models.begin("other", MANIFEST).fail("no")
    ctr, other = rows(session, "SHOW MODELS")
    assert ctr.pop("created") <= datetime.now(UTC)
    assert ctr == {
        "name": "ctr",
        "version": 2,
        "status": "ready",
        "algorithm": "xftrl",
        "examples": 200,
        "features": 3,
        "auc": 0.8,
        "measured_on": "training",
        "progress": None,
    }
    assert (other["name"], other["version"], other["status"]) == ("other", None, "failed")
    assert [row["name"] for row in rows(session, "SHOW MODELS LIKE 'o%'")] == ["other"]
    assert rows(session, "SHOW MODELS LIKE 'x%'") == []


@slow_elsewhere
def test_show_models_of_an_empty_warehouse_has_its_columns(session: xpsql.Session) -> None:
    assert session.sql("SHOW MODELS").arrow().schema.names == [
        "name",
        "version",
        "status",
        "algorithm",
        "examples",
        "features",
        "auc",
        "measured_on",
        "created",
        "progress",
    ]


@embedded
def test_show_versions_tells_status_and_error_of_each(session: xpsql.Session) -> None:
    train(session.models)
    session.models.begin("ctr", dataclasses.replace(MANIFEST, parent=1)).fail("label of row 7 is NULL")
    first, second = rows(session, "SHOW VERSIONS OF MODEL ctr")
    assert (first["version"], first["status"], first["served"], first["auc"], first["error"]) == (1, "ready", True, 0.75, None)
    assert (second["version"], second["status"], second["served"], second["parent"]) == (2, "failed", False, 1)
    assert second["error"] == "label of row 7 is NULL"


@embedded
def test_describe_model_shows_slots_options_and_metrics(session: xpsql.Session) -> None:
    train(session.models)
    shown = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr VERSION 1")}
    assert shown["algorithm"] == "xftrl(alpha = 0.1)"
    assert shown["operator 1"] == "decay(rate = 0.99)"
    assert shown["slot carrier"] == "categorical, string"
    assert shown["setting batch_size"] == "1024"
    assert shown["metric auc"] == "0.75"
    assert shown["query"] == "SELECT * FROM log"
    assert "error" not in shown


@embedded
def test_describe_model_shows_bounds_the_gate_and_what_it_was_judged_by(session: xpsql.Session) -> None:
    life = (
        PartEntry("admit", {"utility": 0.5}),
        PartEntry("expire", {"after": "1 day", "utility": 0.1}),
        PartEntry("elsewhere", {"a": 1}),
    )
    clauses = {"EVALUATE": {"every": 20, "on": 5, "by": "city"}, "RELEASE": "auc > 0.7"}
    gate = {"clauses": clauses, "evaluation": {"auc": 0.72}}
    train(session.models, operators=life, **gate)
    shown = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr")}
    operators = [value for name, value in shown.items() if name.startswith("operator ")]
    assert operators == ["admit(utility > 0.5)", "expire(after = '1 day', utility < 0.1)", "elsewhere(a = 1)"]
    assert (shown["evaluate"], shown["release when"]) == ("EVERY 20 BATCHES ON 5 BATCHES BY city", "auc > 0.7")
    assert shown["evaluation auc"] == "0.72"


@embedded
def test_describe_model_writes_values_as_tables_do(session: xpsql.Session) -> None:
    written = {"query": "SELECT *\nFROM log", "metrics": {"auc": 0.5327259621}, "settings": {"encrypt": False, "slack": 4.0}}
    train(session.models, **written)
    shown = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr")}
    assert (shown["setting encrypt"], shown["setting slack"], shown["metric auc"]) == ("false", "4", "0.532726")
    assert (shown["query"], shown["examples"]) == (
        "SELECT *\nFROM log",
        str(session.models.find("ctr").manifest.learned.examples),
    )
    assert not shown["created"].endswith("+00:00")


@embedded
def test_describe_model_tells_about_a_failed_version_too(session: xpsql.Session) -> None:
    session.models.begin("ctr", MANIFEST).fail("no")
    shown = {row["property"]: row["value"] for row in rows(session, "DESCRIBE MODEL ctr")}
    assert (shown["status"], shown["served"], shown["error"]) == ("failed", "no", "no")


@embedded
def test_show_train_model_gives_the_statement_as_written(session: xpsql.Session) -> None:
    train(session.models)
    assert rows(session, "SHOW TRAIN MODEL ctr") == [{"statement": MANIFEST.statement}]


@embedded
def test_a_promoted_version_is_what_statements_without_a_version_use(session: xpsql.Session) -> None:
    train(session.models)
    train(session.models, parent=1, metrics={"auc": 0.1})
    session.sql("ALTER MODEL ctr PROMOTE VERSION 1")
    assert rows(session, "SELECT auc FROM ML.EVALUATE(MODEL ctr)") == [{"auc": 0.75}]
    assert rows(session, "SELECT auc FROM ML.EVALUATE(MODEL ctr VERSION 2)") == [{"auc": 0.1}]
    session.sql("ALTER MODEL ctr PROMOTE LAST")
    assert rows(session, "SELECT auc FROM ML.EVALUATE(MODEL ctr)") == [{"auc": 0.1}]


@embedded
def test_drop_model_removes_a_version_or_the_model(session: xpsql.Session) -> None:
    train(session.models)
    train(session.models, parent=1)
    session.sql("DROP MODEL ctr VERSION 2; DROP MODEL IF EXISTS ctr VERSION 2")
    assert session.models.version("ctr").number == 1
    session.sql("DROP MODEL ctr; DROP MODEL IF EXISTS ctr")
    assert session.models.names() == []


@embedded
def test_old_versions_are_dropped_and_reported(session: xpsql.Session) -> None:
    for parent in (None, 1, 2, 3):
        train(session.models, parent=parent)
    session.reporter = LogReporter(stream := io.StringIO())
    session.sql("DROP MODEL ctr VERSIONS RETAIN LAST 2; DROP MODEL ctr VERSIONS RETAIN LAST 5")
    session.sql("DROP MODEL IF EXISTS absent VERSIONS RETAIN LAST 1")
    assert stream.getvalue() == "Dropped versions 1, 2 of model ctr.\n"
    assert session.models.numbers("ctr") == [3, 4]
    for text, message in [
        ("DROP MODEL absent VERSIONS RETAIN LAST 1", "absent"),
        ("DROP MODEL ctr VERSIONS RETAIN LAST 0", r"1 version or more, got 0; DROP MODEL ctr removes all"),
        ("DROP MODEL ctr VERSION 3 VERSIONS RETAIN LAST 1", "Expected"),
    ]:
        with pytest.raises(XpsqlError, match=message):
            session.sql(text)


@embedded
def test_who_drops_the_served_version_hears_which_one_is_served_now(session: xpsql.Session) -> None:
    for parent in (None, 1, 2):
        train(session.models, parent=parent)
    stream = io.StringIO()
    session.reporter = LogReporter(stream)
    for number, reported in (
        (2, ""),
        (3, "Version 3 of model ctr was the one served; version 1 is served now.\n"),
        (1, "Version 1 of model ctr was the one served; none is served now.\n"),
    ):
        session.sql(f"DROP MODEL ctr VERSION {number}")
        assert stream.getvalue() == reported
        stream.seek(stream.truncate(0))


@embedded
@pytest.mark.parametrize(
    "text",
    [
        "SHOW VERSIONS OF MODEL ctx",
        "DESCRIBE MODEL ctx",
        "SHOW TRAIN MODEL ctx",
        "ALTER MODEL ctx PROMOTE VERSION 1",
        "DROP MODEL ctx",
        "SHRINK MODEL ctx WHERE updates < 1",
        "EXPORT MODEL ctx TO TABLE t",
        "SELECT * FROM ML.WEIGHTS(MODEL ctx)",
        "SELECT * FROM ML.FEATURE_INFO(MODEL ctx)",
        "SELECT * FROM ML.TRAINING_INFO(MODEL ctx)",
        "SELECT * FROM ML.EVALUATE(MODEL ctx)",
    ],
)
def test_an_unknown_model_is_answered_with_the_nearest_name(session: xpsql.Session, text: str) -> None:
    train(session.models)
    with pytest.raises(ModelError, match=r"Did you mean ctr\?"):
        session.sql(text)


@lengthy
def test_weights_have_the_names_of_slots_and_the_worth_of_features(session: xpsql.Session) -> None:
    train(session.models)
    first, second, third = rows(session, "SELECT * FROM ML.WEIGHTS(MODEL ctr) ORDER BY key")
    rate = 10.2 / 41
    divergence = rate * math.log(rate / 0.2) + (1 - rate) * math.log((1 - rate) / 0.8)
    assert first == {
        "slot": "carrier",
        "key": -5,
        "weight": 0.5,
        "count": 40,
        "updates": 40,
        "last_seen": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "shows": 40,
        "clicks": 10,
        "utility": pytest.approx(math.log1p(40) * 0.5),
        "information": pytest.approx(40 * divergence),
    }
    assert (second["key"], second["last_seen"], second["weight"]) == (7, None, -1.5)
    assert (third["slot"], third["utility"], third["information"]) == ("hour", 0.0, pytest.approx(0.0))


@lengthy
def test_weights_can_be_joined_counted_and_asked_for_one_column(session: xpsql.Session) -> None:
    train(session.models)
    assert rows(session, "SELECT count(*) AS n FROM ML.WEIGHTS(MODEL ctr)") == [{"n": 3}]
    joined = "SELECT a.weight FROM ML.WEIGHTS(MODEL ctr) a JOIN ML.WEIGHTS(MODEL ctr) b ON a.key = b.key WHERE b.updates = 25"
    assert rows(session, joined) == [{"weight": -1.5}]


@slow_elsewhere
def test_a_model_without_base_rate_has_no_information(session: xpsql.Session) -> None:
    train(session.models, base_rate=None)
    assert rows(session, "SELECT DISTINCT information FROM ML.WEIGHTS(MODEL ctr)") == [{"information": None}]


@costly_after_first
def test_errors_beside_weights_tell_their_columns_and_the_users_tables(session: xpsql.Session) -> None:
    train(session.models)
    session.sql("CREATE TABLE mine AS SELECT 1 AS a")
    with pytest.raises(StatementError, match=r"Did you mean weight\? Valid: clicks, .*key"):
        session.sql("SELECT weigth FROM ML.WEIGHTS(MODEL ctr)")
    with pytest.raises(StatementError, match=r"no table or view min\. Did you mean mine\? Valid: mine\. "):
        session.sql("SELECT * FROM ML.WEIGHTS(MODEL ctr) JOIN min ON true")


@slow_elsewhere
def test_vectors_are_arrays_and_a_model_of_several_tables_names_them(session: xpsql.Session) -> None:
    schema = rows_schema(VECTORS)
    row = dict.fromkeys(schema.names, 0) | {"key": 3, "shows": 1, "w": [3.0, 4.0]}
    with session.models.begin("fm", dataclasses.replace(MANIFEST, tables=(TABLE, VECTORS))) as draft:
        with draft.writer(VECTORS) as writer:
            writer.write(pa.RecordBatch.from_pylist([row], schema))
        fill(draft)
    last = rows(session, "SELECT * FROM ML.WEIGHTS(MODEL fm) ORDER BY `table`, key")[0]
    assert (last["table"], last["key"], last["weights"]) == ("v", 3, [3.0, 4.0])
    assert last["utility"] == pytest.approx(math.log(2) * 5)


@slow_elsewhere
def test_a_slot_with_quotes_in_its_name_keeps_them(session: xpsql.Session) -> None:
    with session.models.begin(
        "ctr", dataclasses.replace(MANIFEST, slots=(SlotEntry("it's a \\ slot"), SlotEntry("b", number=1)))
    ) as draft:
        fill(draft)
    assert rows(session, "SELECT DISTINCT slot FROM ML.WEIGHTS(MODEL ctr) ORDER BY slot") == [
        {"slot": "b"},
        {"slot": "it's a \\ slot"},
    ]


@costly_after_first
def test_feature_info_counts_the_features_of_each_slot(session: xpsql.Session) -> None:
    train(session.models)
    assert rows(session, "SELECT * FROM ML.FEATURE_INFO(MODEL ctr)") == [
        {"slot": "carrier", "kind": "categorical", "features": 2, "coverage": 0.9, "mean_abs_weight": 1.0, "updates": 65},
        {"slot": "hour", "kind": "continuous", "features": 1, "coverage": 1.0, "mean_abs_weight": 0.0, "updates": 100},
        {"slot": "rare", "kind": "bag", "features": 0, "coverage": 0.0, "mean_abs_weight": None, "updates": 0},
    ]


@embedded
def test_training_info_is_readable_while_the_model_is_trained(session: xpsql.Session) -> None:
    train(session.models)
    with session.models.begin("ctr", dataclasses.replace(MANIFEST, parent=1)) as draft:
        draft.progress({"batch": 20, "examples": 7, "auc": None, "new_metric": 3})
        with (draft.folder / "progress.jsonl").open("a") as file:
            file.write('{"batch": 30, "exam')
        reported = rows(session, "SELECT version, batch, examples, auc, new_metric, time FROM ML.TRAINING_INFO(MODEL ctr)")
        draft.fail("enough")
    assert all(row.pop("time") <= datetime.now(UTC) for row in reported)
    assert reported == [
        {"version": 1, "batch": 10, "examples": 100, "auc": 0.7, "new_metric": None},
        {"version": 2, "batch": 20, "examples": 7, "auc": None, "new_metric": 3.0},
    ]


@embedded
def test_training_info_before_the_first_evaluation_has_its_columns(session: xpsql.Session) -> None:
    with session.models.begin("ctr", MANIFEST):
        assert rows(session, "SELECT batch, auc, max_weight FROM ML.TRAINING_INFO(MODEL ctr)") == []


@embedded
def test_evaluate_without_data_gives_the_metrics_of_training(session: xpsql.Session) -> None:
    train(session.models, metrics={"examples": 100, "auc": 0.75, "pcopc": None})
    result = session.sql("SELECT * FROM ML.EVALUATE(MODEL ctr)").arrow()
    assert result.to_pylist() == [{"examples": 100, "auc": 0.75, "pcopc": None, "measured_on": "training"}]
    assert result.schema.types == [pa.int64(), pa.float64(), pa.float64(), pa.string()]


@lengthy
def test_shrink_makes_a_version_without_the_rows_that_match(session: xpsql.Session) -> None:
    train(session.models)
    text = "SHRINK MODEL ctr WHERE slot = 'carrier' AND updates < 30 -- too rare"
    assert rows(session, text) == [{"model": "ctr", "version": 2, "features": 2, "removed": 1}]
    old, new = session.models.versions("ctr")
    before = [row for batch in old.rows("w") for row in batch.to_pylist()]
    assert [row for batch in new.rows("w") for row in batch.to_pylist()] == [row for row in before if row["key"] != 7]
    assert (new.manifest.parent, new.manifest.learned.examples_total, new.manifest.slots) == (1, 100, old.manifest.slots)
    assert new.manifest.statement.startswith("SHRINK MODEL ctr WHERE")


@slow_elsewhere
def test_shrink_keeps_rows_for_which_the_condition_is_null_and_dense_parameters(session: xpsql.Session) -> None:
    with session.models.begin("ctr", MANIFEST) as draft:
        draft.dense.mkdir()
        (draft.dense / "part-00000.parquet").write_bytes(b"1")
        fill(draft)
    session.sql("SHRINK MODEL ctr WHERE last_seen < TIMESTAMP '2000-01-01'")
    assert session.models.version("ctr").manifest.learned.rows == 2
    assert (session.models.version("ctr").dense / "part-00000.parquet").read_bytes() == b"1"


STATE = dataclasses.replace(VECTORS, columns={"n": 2, "w": 2})


def train_parts(session: xpsql.Session, parts: int = 3, each: int = 400) -> None:
    """Make a model fm of two tables, whose rows stand in several files."""
    with session.models.begin("fm", dataclasses.replace(MANIFEST, tables=(TABLE, STATE))) as draft:
        for part in range(parts):
            made = [
                {"key": key, "slot": 0, "count": 1, "updates": key % 4, "shows": 1, "clicks": 0, "last_seen": 0}
                | {"z": 0.5, "n": key.to_bytes(8, "little"), "w": [key, -0.1]}
                for key in range(1000 * part, 1000 * part + each)
            ]
            for table in (TABLE, STATE):
                one = [{**row, "n": 1.0, "w": 0.1} for row in made] if table is TABLE else made
                with draft.writer(table, part) as writer:
                    writer.write(pa.RecordBatch.from_pylist(one, schema=rows_schema(table)))
        draft.commit(draft.manifest.having_learned(rows=parts * each))


@slow_elsewhere
def test_shrink_takes_rows_from_every_part_and_table_and_keeps_them_as_they_are_stored(session: xpsql.Session) -> None:
    train_parts(session)
    shrunk = {"model": "fm", "version": 2, "features": 600, "removed": 600}
    assert rows(session, "SHRINK MODEL fm WHERE updates < 2") == [shrunk]
    old, new = session.models.versions("fm")
    for table in (TABLE, STATE):
        stored = [row for batch in old.rows(table.name) for row in batch.to_pylist()]
        kept = [row for batch in new.rows(table.name) for row in batch.to_pylist()]
        assert sorted(kept, key=lambda row: row["key"]) == [row for row in stored if row["updates"] >= 2]
        assert all(pq.read_schema(file) == rows_schema(table) for file in new.files(table.name))
    assert list(session.models.warehouse.glob(".scratch/*")) == []
    assert rows(session, "SHRINK MODEL fm WHERE true") == [{"model": "fm", "version": 3, "features": 0, "removed": 600}]
    assert rows(session, "SELECT count(*) AS n FROM ML.WEIGHTS(MODEL fm)") == [{"n": 0}]


@embedded
def test_a_shrunk_version_keeps_the_metrics_of_the_training(session: xpsql.Session) -> None:
    kept = {
        "metrics": {"auc": 0.7},
        "evaluation": {"auc": 0.75},
        "validation": {"auc": 0.8},
    }
    calibration = ((0.1, 0.1, 100),)
    train(session.models, **kept, calibration=calibration)
    session.sql("SHRINK MODEL ctr WHERE updates < 30")
    before, shrunk = (version.manifest for version in session.models.versions("ctr"))
    assert all(getattr(shrunk, name) == getattr(before, name) for name in kept)
    assert tuple(map(tuple, shrunk.learned.calibration)) == calibration
    assert rows(session, "SELECT auc FROM ML.EVALUATE(MODEL ctr)") == [{"auc": 0.7}]


@slow_elsewhere
def test_a_wrong_condition_makes_no_version(session: xpsql.Session) -> None:
    train(session.models)
    with pytest.raises(StatementError) as caught:
        session.sql("SELECT 1;\nSHRINK MODEL ctr WHERE updates < 3 AND nothing > 3")
    assert caught.value.position is not None
    assert caught.value.position.line == 2
    listed = set(caught.value.message.partition("Valid: ")[2].rstrip(".").split(", "))
    assert "utility" in listed <= set(session.sql("SELECT * FROM ML.WEIGHTS(MODEL ctr)").arrow().schema.names)
    assert [v.number for v in session.models.versions("ctr")] == [1]


@costly_after_first
@pytest.mark.parametrize(
    ("condition", "message"),
    [("slot", "which is boolean; this one is string"), ("updates < 'x'", "'x'"), ("count(*) > 1", "aggregate")],
)
def test_a_condition_of_another_type_makes_no_version(session: xpsql.Session, condition: str, message: str) -> None:
    train(session.models)
    with pytest.raises(StatementError) as caught:
        session.sql(f"SHRINK MODEL ctr WHERE {condition}")
    assert message in caught.value.message.lower()
    assert [v.number for v in session.models.versions("ctr")] == [1]
    assert rows(session, "SHRINK MODEL ctr WHERE updates < 30")[0]["version"] == 2


@lengthy
def test_export_to_a_table_writes_the_columns_of_weights(session: xpsql.Session) -> None:
    train(session.models)
    (reported,) = rows(session, "EXPORT MODEL ctr TO TABLE weights")
    assert reported == {"model": "ctr", "version": 1, "rows": 3, "target": "weights", "dense": None}
    ordered = "SELECT * FROM {} ORDER BY key"
    assert rows(session, ordered.format("weights")) == rows(session, ordered.format("ML.WEIGHTS(MODEL ctr)"))


def test_ctrl_c_leaves_no_internal_view(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    train(session.models)
    register, made = session.engine.register, []

    def interrupted(name: str, files: list[Path]) -> None:
        register(name, files)
        made.append(name)
        raise KeyboardInterrupt

    monkeypatch.setattr(session.engine, "register", interrupted)
    for statement in (
        "SELECT * FROM ML.WEIGHTS(MODEL ctr)",
        "SHRINK MODEL ctr WHERE true",
        "SELECT * FROM ML.FEATURE_INFO(MODEL ctr)",
    ):
        with pytest.raises(KeyboardInterrupt):
            session.sql(statement)
    assert len(made) == 3
    for name in made:
        with pytest.raises(StatementError, match=f"no table or view {name}"):
            session.engine.schema(f"SELECT * FROM {name}")


@slow_elsewhere
def test_export_takes_names_in_backticks(session: xpsql.Session) -> None:
    train(session.models)
    assert rows(session, "EXPORT MODEL ctr TO TABLE `table`")[0]["target"] == "`table`"
    session.sql("EXPORT MODEL ctr TO TABLE default.`select`")
    assert rows(session, "SELECT * FROM `table` ORDER BY key") == rows(session, "SELECT * FROM default.`select` ORDER BY key")


def test_export_replaces_a_table_only_when_asked(session: xpsql.Session) -> None:
    train(session.models)
    session.sql("EXPORT MODEL ctr TO TABLE weights")
    with pytest.raises(StatementError, match=r"Drop it, use WITH \(replace = true\), or choose another name"):
        session.sql("EXPORT MODEL ctr TO TABLE weights")
    session.sql("EXPORT MODEL ctr TO TABLE weights WITH (replace = true)")
    with pytest.raises(OptionError, match="has no option 'over'"):
        session.sql("EXPORT MODEL ctr TO TABLE weights WITH (over = true)")


@pytest.mark.parametrize("rest", ["", " DELTA FROM VERSION 1"])
def test_an_error_about_the_table_of_an_export_points_at_it(session: xpsql.Session, rest: str) -> None:
    train(session.models)
    session.sql("EXPORT MODEL ctr TO TABLE weights")
    with pytest.raises(StatementError, match="The table weights exists") as raised:
        session.sql(f"SELECT 1;\n  EXPORT MODEL ctr TO TABLE weights{rest}")
    assert raised.value.position == (2, 29, "weights")


def read_json(path: Path) -> pa.Table:
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])


ENGINES = ["spark", "spark", "duckdb"]  # of the formats in their order, or in the opposite one
READERS = [("parquet", pq.read_table), ("csv", csv.read_csv), ("json", read_json)]


@lengthy
@pytest.mark.parametrize(
    ("engine", "format", "read"), [(name, *one) for name, one in zip(ENGINES, READERS, strict=True)], indirect=["engine"]
)
def test_export_to_files_writes_a_folder_that_stands_alone(
    session: xpsql.Session, tmp_path: Path, format: str, read: Any
) -> None:
    train(session.models)
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT {format}")
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT {format.upper()}")
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["_manifest.json", f"part-00000.{format}"]
    table = read(tmp_path / "out" / f"part-00000.{format}")
    assert dict(zip(table["key"].to_pylist(), table["weight"].to_pylist(), strict=True)) == {-5: 0.5, 7: -1.5, 9: 0.0}


@costly
@pytest.mark.parametrize(
    ("engine", "format", "read"), [(name, *one) for name, one in zip(ENGINES, READERS[::-1], strict=True)], indirect=["engine"]
)
def test_export_to_files_writes_every_part(session: xpsql.Session, tmp_path: Path, format: str, read: Any) -> None:
    train_parts(session)
    (reported,) = rows(session, f"EXPORT MODEL fm TO '{tmp_path}/out' FORMAT {format}")
    files = sorted((tmp_path / "out").glob("part-*"))
    assert [file.name for file in files] == [f"part-{number:05d}.{format}" for number in range(len(files))]
    parts = [read(file) for file in files]
    assert reported["rows"] == 2400
    assert sorted((row["table"], row["key"]) for part in parts for row in part.select(["table", "key"]).to_pylist()) == sorted(
        (table, 1000 * part + key) for table in "vw" for part in range(3) for key in range(400)
    )
    assert (len(files) > 1) == (session.engine.name == "spark")
    assert list(session.models.warehouse.glob(".scratch/*")) == []


@slow_elsewhere
def test_vectors_and_dense_parameters_survive_an_export_as_csv(session: xpsql.Session, tmp_path: Path) -> None:
    schema = rows_schema(VECTORS)
    row = dict.fromkeys(schema.names, 0) | {"key": 3, "w": [3.0, 4.0]}
    with session.models.begin("fm", dataclasses.replace(MANIFEST, tables=(VECTORS,))) as draft:
        with draft.writer(VECTORS) as writer:
            writer.write(pa.RecordBatch.from_pylist([row], schema))
        write_dense(draft.dense, 0, [("layer", "w", np.ones((2, 3), np.float32), 0)])
        draft.commit(draft.manifest)
    (reported,) = rows(session, f"EXPORT MODEL fm TO '{tmp_path}/out' FORMAT csv")
    copied = pq.read_table(Path(reported["dense"]) / "part-00000.parquet")
    assert copied.equals(pq.read_table(session.models.version("fm").dense / "part-00000.parquet"))
    assert csv.read_csv(tmp_path / "out" / "part-00000.csv")["weights"].to_pylist() == ["[3.0, 4.0]"]


@embedded
def test_an_export_is_there_whatever_becomes_of_the_one_before(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(session.models)
    out, rename = tmp_path / "out", Path.rename
    statement = f"EXPORT MODEL ctr TO '{out}' FORMAT csv"
    session.sql(statement)

    def interrupted(self: Path, target: Path) -> Path:
        if target == out and not self.name.endswith("-old"):
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.sql(statement)
    assert [f.name for f in tmp_path.iterdir() if f.name.endswith("out") or f.name.startswith(".out")] == ["out"]

    def denied(path: Path, **named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", denied)
        assert rows(session, statement)
    assert (out / "_manifest.json").exists()


@embedded
def test_an_export_removes_what_killed_ones_left_a_week_ago(session: xpsql.Session, tmp_path: Path) -> None:
    train(session.models)
    names = [f".out-{'0' * 32}", f".out-{'1' * 32}-old", ".out-notes", f".other-{'0' * 32}", f".out-{'2' * 32}"]
    for name in names:
        (tmp_path / name).mkdir()
        if name != names[-1]:
            os.utime(tmp_path / name, (0, 0))
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path / 'out'}' FORMAT csv")
    assert {path.name for path in tmp_path.iterdir()} & {*names} == {*names[2:]}


@embedded
def test_export_does_not_touch_a_folder_of_somebody_else(session: xpsql.Session, tmp_path: Path) -> None:
    train(session.models)
    (tmp_path / "mine").touch()
    with pytest.raises(ModelError, match="no export of a model"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}' FORMAT csv")
    assert (tmp_path / "mine").exists()


@embedded
def test_export_replaces_files_of_another_format_only_where_it_says_so(session: xpsql.Session, tmp_path: Path) -> None:
    train(session.models)
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT parquet")
    with pytest.raises(ModelError, match=r"out has an export as parquet\. .* FORMAT csv WITH \(replace = true\)"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT csv")
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT csv WITH (replace = true)")
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["_manifest.json", "part-00000.csv"]


@embedded
@pytest.mark.parametrize("uri", ["s3:/bucket/x", "hdfs://name/x"])
def test_export_refuses_what_is_no_local_path(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    train(session.models)
    with pytest.raises(StatementError, match=rf"got '{uri}'\. Mount \w+:// as a folder\. \(line 1, column 21, at "):
        session.sql(f"EXPORT MODEL ctr TO '{uri}' FORMAT csv")
    assert not any(path.name.startswith(("s3", "hdfs")) for path in tmp_path.iterdir())
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path.as_uri()}/out' FORMAT csv")
    assert (tmp_path / "out" / "_manifest.json").exists()


@embedded
def test_a_path_with_nul_is_refused_at_its_place(session: xpsql.Session) -> None:
    for place in ("a\0b", "file:///a%00b"):
        for statement in (
            "EXPORT MODEL m TO '{}' FORMAT csv",
            "IMPORT MODEL m FROM '{}'",
            "INSERT OVERWRITE DIRECTORY '{}' SELECT 1",
        ):
            with pytest.raises(StatementError, match=r"no path has the character NUL; got .*line 1, column"):
                session.sql(statement.format(place))


@embedded
def test_an_unknown_format_is_answered_with_those_that_are_known(session: xpsql.Session) -> None:
    with pytest.raises(
        StatementError,
        match=r"Expected a format, got 'parket'.*Did you mean parquet\? Valid: csv, json, onnx, parquet, serving",
    ):
        session.sql("EXPORT MODEL ctr TO 'out' FORMAT parket")


@embedded
def test_a_delta_is_written_to_a_table_only(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"TO TABLE table DELTA FROM VERSION k.* at 'DELTA'"):
        session.sql("EXPORT MODEL ctr TO 'out' DELTA FROM VERSION 1")

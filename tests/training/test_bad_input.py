"""What cannot be learned from is refused before anything starts, or fails the version and leaves the old one served."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import embedded, log, session, write
from xpsql.platform.engines.parquet_scan import check_unchanged
from xpsql.platform.errors import DataError, ModelError, StatementError, XpsqlError
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.entries import RowGroup

__all__ = ["session"]


@pytest.fixture
def path(session: xpsql.Session, tmp_path: Path) -> Path:
    return write(log(1_000), tmp_path / "log.parquet")


CANNOT_RUN = [
    ("TRAIN MODEL m USING xfrtl AS SELECT * FROM {}", "Did you mean xftrl"),
    ("TRAIN MODEL m USING xftrl(alhpa = 1) AS SELECT * FROM {}", "Did you mean alpha"),
    ("TRAIN MODEL m USING xftrl(alpha = -1) AS SELECT * FROM {}", "alpha .* expects"),
    ("TRAIN MODEL m USING xftrl(beta = 0) AS SELECT * FROM {}", r"beta .* \(0, inf\), got 0"),
    ("TRAIN MODEL m USING xftrl OPERATORS (decoy(w = 0.9)) AS SELECT * FROM {}", "Did you mean decay"),
    (
        "TRAIN MODEL m USING xftrl IGNORE (ts) OPERATORS (ftrl, safety) AS SELECT * FROM {}",
        "ends with an optimizer|at its end",
    ),
    ("TRAIN MODEL m USING xftrl OPERATORS (decay(half_life = '1 day')) IGNORE (ts) AS SELECT * FROM {}", "TIME"),
    (
        "TRAIN MODEL m USING xftrl (alpha = 0.3, intercept = false) IGNORE (ts) OPERATORS (ftrl) AS SELECT * FROM {}",
        r"Option alpha of algorithm xftrl has no effect: .* ftrl .*OPERATORS \(ftrl \(option = value\)\).*",
    ),
    (
        "TRAIN MODEL m USING fm (dim = 2, vector_alpha = 0.1) IGNORE (ts) OPERATORS (safety, adam) AS SELECT * FROM {}",
        r"Option vector_alpha of algorithm fm has no effect: .* \(adam \(",
    ),
    ("TRAIN MODEL m USING xftrl WITH (batch_sise = 1) AS SELECT * FROM {}", "Did you mean batch_size"),
    *(
        (f"TRAIN MODEL m USING xftrl WITH ({empty} = '') AS SELECT * FROM {{}}", rf"WITH.*{empty}.* string or none, got ''")
        for empty in ("once", "target", "checkpoint_path")
    ),
    ("TRAIN MODEL m USING fm LABEL label, item IGNORE (ts) AS SELECT * FROM {}", "LABEL names 2 columns"),
    ("TRAIN MODEL m USING xftrl LABEL clik IGNORE (ts) AS SELECT * FROM {}", "LABEL names 'clik'"),
    ("TRAIN MODEL m USING xftrl IGNORE (ts, colour) AS SELECT * FROM {}", "IGNORE names 'colour'"),
    *(
        (
            f"TRAIN MODEL m USING xftrl {role} item IGNORE (ts, ITEM) AS SELECT * FROM {{}}",
            f"IGNORE and {role} both name 'item'",
        )
        for role in ("LABEL", "WEIGHT", "TIME", "GROUP")
    ),
    *(
        (f"TRAIN MODEL m USING xftrl {role} label IGNORE (ts) AS SELECT * FROM {{}}", f"LABEL and {role} both name 'label'")
        for role in ("WEIGHT", "TIME", "GROUP")
    ),
    ("TRAIN MODEL m USING xftrl LABEL label, LABEL IGNORE (ts) AS SELECT * FROM {}", "LABEL names label twice"),
    ("TRAIN MODEL m USING xftrl IGNORE (ts, item, ITEM) AS SELECT * FROM {}", "IGNORE names item twice"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user AS `(intercept)` FROM {}", "give that column another"),
    ("TRAIN MODEL m USING xftrl(alpha = 1e400) IGNORE (ts) AS SELECT * FROM {}", r"alpha .* \(0, inf\), got inf"),
    ("TRAIN MODEL m USING xftrl IGNORE (ts) WITH (batch_size = 1e400) AS SELECT * FROM {}", "an int or none, got inf"),
    ("TRAIN MODEL m USING xftrl(l1 = NULL) AS SELECT * FROM {}", "l1 .* expects a float, got NULL"),
    ("TRAIN MODEL m USING xftrl AS SELECT * FROM {}", "ts has type"),
    ("TRAIN MODEL m USING xftrl GROUP tags IGNORE (ts) AS SELECT * FROM {}", "GROUP expects .* tags is array<string>"),
    (
        "TRAIN MODEL m USING xftrl IGNORE (ts, b) EVALUATE EVERY 1 BATCHES ON 1 BATCHES BY b "
        "AS SELECT *, unhex('ff') AS b FROM {}",
        r"EVALUATE BY expects .* b is binary\. .* hex\(\)",
    ),
    ("TRAIN MODEL m USING xftrl AS SELECT label, usr FROM {}", "usr"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user, item AS user FROM {}", "two columns named user"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user FROM {} WHERE item < 0", "no rows"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user FROM {} ORDER BY item LIMIT 0", "no rows"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`/nowhere/x.parquet`", "/nowhere/x.parquet"),
    ("TRAIN MODEL m USING xftrl AS SELECT label, user FROM nowhere", "nowhere"),
    ("CONTINUE MODEL absent AS SELECT * FROM {}", "absent"),
    ("SELECT * FROM ML.PREDICT(MODEL absent, TABLE t)", "absent"),
    ("SHOW VERSIONS OF MODEL absent", "absent"),
]


@slow_elsewhere
def test_statements_that_cannot_run_leave_no_model(session: xpsql.Session, path: Path) -> None:
    for statement, message in CANNOT_RUN:
        with pytest.raises((StatementError, ModelError), match=message):
            session.sql(statement.format(f"parquet.`{path}`"))
        assert session.models.names() == [], statement
    session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts) AS SELECT * FROM parquet.`{path}`")


@embedded
@pytest.mark.parametrize("bad", [None, 2, -1])
def test_bad_labels_are_found_before_the_start_where_statistics_tell(
    session: xpsql.Session, tmp_path: Path, bad: int | None
) -> None:
    table = pa.table({"label": pa.array([0, 1, bad], pa.int32()), "x": ["a", "b", "c"]})
    write(table, tmp_path / "bad.parquet")
    with pytest.raises(StatementError, match="LABEL label"):
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{tmp_path / 'bad.parquet'}`")
    assert session.models.names() == []


@lengthy
@pytest.mark.parametrize(("engine", "bad"), [("duckdb", None), ("spark", 2)], indirect=["engine"])
def test_other_bad_labels_fail_the_version_and_name_the_row(
    session: xpsql.Session, path: Path, tmp_path: Path, bad: int | None
) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    table = pa.table({"label": pa.array([0, 1] * 50 + [bad], pa.int32()), "user": ["a"] * 101})
    pq.write_table(table, tmp_path / "bad.parquet", write_statistics=False)
    with pytest.raises(DataError, match=r"row 100 of .*bad\.parquet"):
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{tmp_path / 'bad.parquet'}`")
    versions = session.sql("SHOW VERSIONS OF MODEL m").arrow().to_pylist()
    assert [(v["version"], v["status"], v["served"]) for v in versions] == [(1, "ready", True), (2, "failed", False)]
    assert "row 100" in versions[1]["error"]


@pytest.mark.parametrize(("engine", "algorithm"), [("duckdb", "xftrl"), ("spark", "owlqn")], indirect=["engine"])
def test_a_bad_row_is_counted_among_those_that_the_query_leaves(session: xpsql.Session, tmp_path: Path, algorithm: str) -> None:
    table = pa.table({"label": pa.array([0, 1] * 50 + [2], pa.int32()), "x": range(101)})
    path = write(table, tmp_path / "bad.parquet")
    message = r"row 10 of what the query leaves of row group 0 of .*bad\.parquet has 2"
    with pytest.raises(DataError, match=message):
        session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT * FROM parquet.`{path}` WHERE x >= 90")


@embedded
@pytest.mark.parametrize(("bad", "reported"), [(None, "NULL or NaN"), (-1.0, "-1"), (float("inf"), "inf")])
def test_a_bad_weight_fails_the_version_and_names_the_row(
    session: xpsql.Session, tmp_path: Path, bad: float | None, reported: str
) -> None:
    table = pa.table({"label": [0, 1] * 50, "user": ["a"] * 100, "w": [1.0] * 99 + [bad]})
    path = write(table, tmp_path / "bad.parquet", row_group_rows=60)
    with pytest.raises(DataError, match=rf"WEIGHT w must be .*; row 39 of row group 1 of .*bad\.parquet has {reported}\."):
        session.sql(f"TRAIN MODEL m USING xftrl WEIGHT w AS SELECT * FROM parquet.`{path}`")


@embedded
def test_weights_that_are_no_numbers_fail_the_version(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(pa.table({"label": [0, 1] * 50, "user": ["a"] * 100, "w": [1e30] * 100}), tmp_path / "log.parquet")
    with pytest.raises(XpsqlError, match=r"NaN: .*huge values in continuous columns, vectors, WEIGHT"):
        session.sql(f"TRAIN MODEL m USING xftrl WEIGHT w WITH (batch_size = 5) AS SELECT * FROM parquet.`{path}`")
    assert not session.models.exists("m")


@embedded
def test_times_in_milliseconds_are_refused(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(pa.table({"label": [0, 1], "user": ["a", "b"], "t": [0, 1_700_000_000_000]}), tmp_path / "log.parquet")
    with pytest.raises(DataError, match=r"TIME t must be seconds since 1970, .* one is 1700000000000\. Divide milliseconds"):
        session.sql(f"TRAIN MODEL m USING xftrl TIME t AS SELECT * FROM parquet.`{path}`")


@lengthy
@pytest.mark.parametrize(
    ("engine", "now"), [("spark", pa.array([0, 1])), ("duckdb", pa.array([0, 1], pa.date32()))], indirect=["engine"]
)
def test_a_category_written_in_another_way_is_refused_and_strings_are_taken(
    session: xpsql.Session, tmp_path: Path, now: pa.Array
) -> None:
    before = write(pa.table({"label": [0, 1], "flag": [False, True], "User Id": [1, 2]}), tmp_path / "before.parquet")
    after = write(pa.table({"label": [0, 1], "flag": now, "User Id": [1, 2]}), tmp_path / "after.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{before}`")
    with pytest.raises(StatementError, match=r"Slot flag is categorical \((bigint|date)\) and was categorical \(boolean\)"):
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{after}`")
    with pytest.raises(StatementError, match=r"learned it as categorical \(boolean\)"):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{after}`))")
    with pytest.raises(StatementError, match="Select it, or CAST\\(NULL AS BIGINT\\) AS `User Id`"):
        session.sql(f"CONTINUE MODEL m AS SELECT label, flag FROM parquet.`{before}`")
    query = f"SELECT label, CAST(flag AS STRING) AS flag, `User Id` FROM parquet.`{before}`"
    assert session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({query}))").arrow().num_rows == 2


@embedded
def test_a_slot_with_other_settings_is_reported_with_them(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(pa.table({"label": [0, 1], "user": [1, 2], "item": [3, 4]}), tmp_path / "log.parquet")
    session.sql(f"TRAIN MODEL m USING xftrl WITH (hashed = (user)) AS SELECT * FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"user is categorical \(bigint\) and was categorical \(bigint, hashed\) in"):
        session.sql(f"CONTINUE MODEL m WITH (hashed = ()) AS SELECT * FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"user is categorical \(bigint, hashed, with the rows of item\) and was"):
        session.sql(f"CONTINUE MODEL m WITH (share = (user AS item)) AS SELECT * FROM parquet.`{path}`")


@embedded
def test_settings_of_slots_name_no_other_column(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(pa.table({"label": [0, 1], "user": [1, 2], "item": [3, 4]}), tmp_path / "log.parquet")
    for clause, role in (("IGNORE (user)", "IGNORE"), ("WEIGHT user", "WEIGHT"), ("GROUP user", "GROUP")):
        for setting in ("hashed = (user)", "share = (user AS item)", "share = (item AS user)"):
            with pytest.raises(StatementError, match=f"names 'user', which is no slot: {role} names it, too"):
                session.sql(f"TRAIN MODEL m USING xftrl {clause} WITH ({setting}) AS SELECT * FROM parquet.`{path}`")


@costly
@embedded
def test_an_infinite_value_is_an_outlier_of_its_row_and_spoils_no_other(session: xpsql.Session, tmp_path: Path) -> None:
    high = [number % 100 >= 50 for number in range(5000)]
    value = [float(number % 100) for number in range(5000)]
    value[77], value[78], value[2] = float("inf"), 1e39, -float("inf")
    vector = [[1.0 if is_high else -1.0, float("inf") if number == 7 else 0.0] for number, is_high in enumerate(high)]
    for name, column in {"value": value, "vector": vector}.items():
        path = write(pa.table({"label": pa.array(high).cast("int32"), "x": column}), tmp_path / f"{name}.parquet")
        session.sql(f"TRAIN MODEL {name} USING xftrl AS SELECT * FROM parquet.`{path}`")
        measured = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL {name}, (SELECT * FROM parquet.`{path}`))").arrow()
        assert measured["auc"][0].as_py() > 0.99


@embedded
def test_vectors_without_any_element_are_refused(session: xpsql.Session, tmp_path: Path) -> None:
    for number, vectors in enumerate(([None, None], [[], []], [[], None])):
        arrays = pa.array(vectors, pa.list_(pa.float32()))
        path = write(pa.table({"label": [0, 1], "user": ["a", "b"], "x": arrays}), tmp_path / f"log{number}.parquet")
        for what in ("TRAIN", "EXPLAIN TRAIN"):
            with pytest.raises(StatementError, match=r"The arrays of x are all NULL or empty, .* Name it in IGNORE"):
                session.sql(f"{what} MODEL m USING xftrl AS SELECT * FROM parquet.`{path}`")


@embedded
def test_a_vector_that_is_empty_is_refused_and_not_the_others(session: xpsql.Session, tmp_path: Path) -> None:
    arrays = pa.array([None, [], [1.0, 2.0]], pa.list_(pa.float32()))
    path = write(pa.table({"label": [0, 1, 0], "x": arrays}), tmp_path / "log.parquet")
    with pytest.raises(DataError, match="The vectors of x have 2 elements; one has 0"):
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{path}`")


@costly
@pytest.mark.parametrize(("engine", "what"), [("spark", "CONTINUE"), ("duckdb", "EXPLAIN CONTINUE")], indirect=["engine"])
def test_vectors_of_another_length_than_the_models_are_refused(session: xpsql.Session, tmp_path: Path, what: str) -> None:
    def day(name: str, vectors: list[list[float] | None]) -> str:
        table = pa.table({"label": [0, 1], "x": pa.array(vectors, pa.list_(pa.float32()))})
        return f"SELECT * FROM parquet.`{write(table, tmp_path / name)}`"

    session.sql(f"TRAIN MODEL m USING xftrl AS {day('first', [None, [1, 2]])}")
    session.sql(f"CONTINUE MODEL m AS {day('second', [None, None])}")
    with pytest.raises(StatementError, match="vectors of 2 elements in x, and the query's vectors begin with one of 3"):
        session.sql(f"{what} MODEL m AS {day('third', [None, [1, 2, 3]])}")
    assert len(session.models.versions("m")) == 2


@embedded
@pytest.mark.parametrize("what", ["TRAIN", "EXPLAIN TRAIN"])
def test_labels_that_no_classifier_learns_from_are_refused(session: xpsql.Session, tmp_path: Path, what: str) -> None:
    path = write(pa.table({"label": [0, 1, 2], "x": ["a", "b", "c"]}), tmp_path / "log.parquet")
    with pytest.raises(StatementError, match=r"LABEL label of a classifier must be 0 or 1; .* has 0 to 2\."):
        session.sql(f"{what} MODEL m USING xftrl AS SELECT * FROM parquet.`{path}`")
    if what == "TRAIN":
        with pytest.raises(StatementError, match="; the query has 1 to 2"):
            session.sql(f"TRAIN MODEL m USING xftrl AS SELECT * FROM parquet.`{path}` ORDER BY label DESC LIMIT 2")


def test_a_table_that_is_dropped_meanwhile_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"part\.parquet is gone .* its table replaced or dropped\. Train again"):
        check_unchanged(RowGroup(str(tmp_path / "part.parquet"), 1, 1, 0, 1))


@lengthy
def test_a_file_damaged_in_the_middle_fails_the_version_and_the_old_one_stays(
    session: xpsql.Session, path: Path, tmp_path: Path
) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user, item FROM parquet.`{path}`")
    damaged = write(log(20_000).select(["label", "user", "item"]), tmp_path / "damaged.parquet")
    content = bytearray(damaged.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4_000] = os.urandom(4_000)
    damaged.write_bytes(bytes(content))
    with pytest.raises(XpsqlError, match=r"damaged\.parquet"):
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{damaged}`")
    assert session.models.version("m").number == 1
    session.sql(f"CONTINUE MODEL m AS SELECT label, user, item FROM parquet.`{path}`")


@embedded
def test_a_role_that_a_version_gave_is_reported_as_its_own(session: xpsql.Session) -> None:
    session.sql("CREATE TABLE t AS SELECT id % 2 AS label, id AS user, id AS item FROM range(10)")
    session.sql("TRAIN MODEL m USING xftrl GROUP user AS SELECT * FROM t")
    with pytest.raises(StatementError, match="GROUP names 'user' as in version 1, which the query does not return"):
        session.sql("CONTINUE MODEL m AS SELECT label, item FROM t")
    with pytest.raises(StatementError, match="GROUP names 'usr', which the query does not return"):
        session.sql("CONTINUE MODEL m GROUP usr AS SELECT label, item FROM t")


@costly
@embedded
def test_continue_refuses_what_it_cannot_go_on_from(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user, item FROM parquet.`{path}`")
    for query, message in [
        ("SELECT label, user FROM {}", "needs the slot item"),
        ("SELECT label, user, CAST(item AS DOUBLE) AS item FROM {}", "continuous .* was categorical"),
    ]:
        with pytest.raises(StatementError, match=message):
            session.sql(f"CONTINUE MODEL m AS {query.format(f'parquet.`{path}`')}")
    session.sql(f"TRAIN MODEL wide USING xnn AS SELECT label, user, item FROM parquet.`{path}`")
    for explain in ("", "EXPLAIN"):
        with pytest.raises(StatementError, match="needs all tables of version 1; the algorithm has no weights"):
            session.sql(
                f"{explain} CONTINUE MODEL wide USING xnn (wide = false) AS SELECT label, user, item FROM parquet.`{path}`"
            )
    with pytest.raises(StatementError, match="cannot change the optimizer"):
        session.sql(f"CONTINUE MODEL m OPERATORS (adagrad) AS SELECT label, user, item FROM parquet.`{path}`")
    assert [v.number for v in session.models.versions("m")] == [1]


@lengthy
def test_prediction_names_a_missing_or_changed_column(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user, item FROM parquet.`{path}`")
    with pytest.raises(StatementError, match="needs the column item"):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT user FROM parquet.`{path}`))")
    with pytest.raises(StatementError, match="Column item is double"):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT user, CAST(item AS DOUBLE) AS item FROM parquet.`{path}`))")


@slow_elsewhere
def test_a_statement_around_a_prediction_is_refused_before_rows_are_staged_or_scored(
    engine: str | SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with xpsql.connect(warehouse, engine, SilentReporter()) as session:
        session.sql(
            "CREATE TABLE t AS SELECT id AS user, id % 2 AS label FROM range(10); TRAIN MODEL m USING xftrl AS SELECT * FROM t"
        )
        for part in ("stage", "write_table"):
            monkeypatch.setattr(type(session.engine), part, None)
        ordered = "ML.PREDICT(MODEL m, (SELECT *, 1 AS day FROM t ORDER BY label))"
        with pytest.raises(StatementError, match=r"no column usr\. Did you mean user.*label, predicted_label, user"):
            session.sql(f"CREATE TABLE scores AS SELECT usr, predicted_label FROM {ordered}")
        with pytest.raises(StatementError, match="needs the column user"):
            session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT label FROM t ORDER BY label))")
        with pytest.raises(StatementError, match="needs the column user"):
            session.sql("SELECT * FROM ML.EVALUATE(MODEL m, (SELECT label FROM t ORDER BY label))")
        with pytest.raises(StatementError, match=r"no column acu\. Did you mean auc"):
            session.sql("SELECT acu FROM ML.EVALUATE(MODEL m, (SELECT * FROM t ORDER BY label))")


@embedded
def test_a_model_of_a_newer_format_says_so(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    manifest = session.models.version("m").folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(ModelError, match="format 99"):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT user FROM parquet.`{path}`))")


FULL_DISK = """
import resource, signal, sys, xpsql
from xpsql.platform.progress import SilentReporter
warehouse, path, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
    session.sql(f"TRAIN OR REPLACE MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        session.sql(f"CONTINUE MODEL m AS SELECT label, user FROM parquet.`{path}`")
    except xpsql.XpsqlError as error:
        print(error)
    else:
        sys.exit("the limit was not felt")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert session.models.version("m").number == 1
    print(session.sql(f"CONTINUE MODEL m AS SELECT label, user FROM parquet.`{path}`").arrow().to_pylist()[0]["status"])
"""


@costly
def test_a_disk_that_fills_up_fails_the_version_and_the_next_command_works(tmp_path: Path) -> None:
    path = write(log(8_000), tmp_path / "log.parquet")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "warehouse"), str(path), "16000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    error, status = done.stdout.splitlines()
    assert "part-00000.parquet" in error
    assert status == "ready"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_warehouse_that_is_not_writable_is_an_error(tmp_path: Path) -> None:
    path = write(log(100), tmp_path / "log.parquet")
    (tmp_path / "warehouse").mkdir(mode=0o500)
    with xpsql.connect(tmp_path / "warehouse") as session, pytest.raises(XpsqlError, match=r"writable|ermission"):
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")


def test_a_warehouse_inside_a_file_is_an_error(tmp_path: Path) -> None:
    path = write(log(100), tmp_path / "log.parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(XpsqlError), xpsql.connect(tmp_path / "file" / "warehouse") as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")


@embedded
def test_evaluate_refuses_groups_that_cannot_be_distinguished(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl GROUP item AS SELECT label, user, item FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"GROUP expects .* item is array<bigint>"):
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT label, user, array(item) AS item FROM parquet.`{path}`))")


@pytest.mark.parametrize(
    ("engine", "label", "words"),
    [("duckdb", "'yes'", "string"), ("duckdb", "NULL", "NULL without a type"), ("spark", "ts", "timestamp")],
    indirect=["engine"],
)
def test_evaluate_refuses_a_label_that_is_no_number(session: xpsql.Session, path: Path, label: str, words: str) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=f"LABEL expects a number or boolean; label is {words}"):
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT {label} AS label, user FROM parquet.`{path}`))")


@costly_after_first
def test_evaluate_names_a_label_that_is_null_and_measures_nothing_on_no_rows(session: xpsql.Session, path: Path) -> None:
    session.sql(f"TRAIN MODEL m USING xftrl AS SELECT label, user FROM parquet.`{path}`")
    query = f"SELECT CASE WHEN item < 0 THEN label END AS label, user FROM parquet.`{path}`"
    with pytest.raises(DataError, match=r"LABEL label must be 0 or 1; row 0 of the query has NULL or NaN\."):
        session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, ({query}))")
    (found,) = (
        session.sql(f"SELECT * EXCEPT (measured_on) FROM ML.EVALUATE(MODEL m, ({query} WHERE item < 0))").arrow().to_pylist()
    )
    assert found.pop("examples") == 0
    assert set(found.values()) == {None}

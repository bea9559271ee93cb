"""The conformance suite of engines, for ours and for plugins; `xpsql.testing` offers it.

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..platform.engines.base import INTERNAL, Engine, Scan, Staged, internal_name
from ..platform.errors import StatementError

AD, CLICK, PRICE = ["a", "b", None, "a"], [1, 0, 0, 1], [0.5, 1.5, 2.5, None]
LOG = pa.table({"ad": pa.array(AD, pa.string()), "click": pa.array(CLICK, pa.int32()), "price": pa.array(PRICE, pa.float64())})
ALL = "SELECT ad, click, price FROM log"


class EngineTrial:
    """An engine on a warehouse of its own, with a log of four rows as the temporary view `log`.

    Args:
        open: (the warehouse's folder) -> the engine.
        folder: an empty one, for the warehouse and files of the checks.
    """

    def __init__(self, open: Callable[[Path], Engine], folder: Path) -> None:
        self._open = open
        self.folder = folder

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open the engine on the warehouse, with the view `log`."""
        path = self.folder / "log.parquet"
        if not path.exists():
            pq.write_table(LOG, path, row_group_size=2)
        with closing(self._open(self.folder / "warehouse")) as engine:
            engine.register("log", [path])
            yield engine


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, in its order."""
    table = engine.execute(query)
    assert table is not None, f"{query} gave no table"
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def refused(action: Callable[[], object], what: str) -> StatementError:
    """Require that an action is refused by a StatementError, and return the error."""
    try:
        action()
    except StatementError as error:
        return error
    raise AssertionError(f"{what} was not refused")


def read(found: Scan) -> pa.Table:
    """Return the rows of a scan, as trainings read them: split by split, two rows at a time."""
    names = found.schema.names
    pieces = [table for split in found.splits() for table in found.read(split, names, 2)]
    return pa.concat_tables([piece.cast(found.schema) for piece in pieces])


def a_query_gives_its_rows_in_order(trial: EngineTrial) -> None:
    """ORDER BY decides the order, and NULLs are NULLs."""
    with trial.engine() as engine:
        assert rows(engine, f"{ALL} WHERE click = 1 ORDER BY price DESC") == [("a", 1, 0.5), ("a", 1, None)]


def schemas_are_known_without_running(trial: EngineTrial) -> None:
    """`schema` names the columns in Spark's types, and `execute` returns just those."""
    with trial.engine() as engine:
        schema = engine.schema(ALL)
        assert schema.names == ["ad", "click", "price"]
        assert schema.types == [pa.string(), pa.int32(), pa.float64()]
        table = engine.execute(ALL)
        assert table is not None
        assert table.schema.types == schema.types


def types_are_spark_s(trial: EngineTrial) -> None:
    """Literals and counts have the types that Spark gives them."""
    with trial.engine() as engine:
        schema = engine.schema("SELECT count(*) AS n, CAST(1 AS DOUBLE) AS d, CAST('x' AS STRING) AS s FROM log")
        assert schema.types == [pa.int64(), pa.float64(), pa.string()]


def a_reader_streams_what_execute_returns(trial: EngineTrial) -> None:
    """`reader` gives the rows of `execute` in the same types."""
    with trial.engine() as engine:
        table = engine.execute(ALL)
        assert table is not None
        assert engine.reader(ALL).read_all().to_pylist() == table.to_pylist()


def an_unknown_column_is_refused_at_its_place(trial: EngineTrial) -> None:
    """The error stands at the column's line and column, and names it."""
    with trial.engine() as engine:
        error = refused(lambda: engine.schema("SELECT ad,\n  clicc FROM log"), "an unknown column")
        assert "clicc" in error.message
        assert error.position is not None
        assert error.position[:2] == (2, 3)


def an_unknown_table_is_refused(trial: EngineTrial) -> None:
    """The error names the table."""
    with trial.engine() as engine:
        assert "nowhere" in refused(lambda: engine.execute("SELECT * FROM nowhere"), "an unknown table").message


def text_that_is_no_statement_is_refused(trial: EngineTrial) -> None:
    """What does not parse is a StatementError, whichever method reads it."""
    with trial.engine() as engine:
        refused(lambda: engine.execute("SELECT FROM WHERE"), "a broken query")
        refused(lambda: engine.scan("SELECT ad FROM log WHERE ("), "a broken query to scan")


def a_query_is_wanted_where_a_statement_would_act(trial: EngineTrial) -> None:
    """`scan`, `schema` and `reader` run no statement that changes something."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE kept AS SELECT click FROM log")
        for method in (engine.scan, engine.schema, engine.reader):
            refused(lambda method=method: method("DROP TABLE kept"), "DROP as a query")  # type: ignore[misc]
        assert len(rows(engine, "SELECT * FROM kept")) == 4


def tables_are_made_filled_and_dropped(trial: EngineTrial) -> None:
    """CREATE TABLE AS, INSERT INTO and DROP TABLE do what they say, and a name is taken once."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE clicks AS SELECT ad, click FROM log WHERE click = 1")
        assert rows(engine, "SELECT count(*) FROM clicks") == [(2,)]
        refused(lambda: engine.execute("CREATE TABLE clicks AS SELECT ad FROM log"), "a table that exists")
        engine.execute("INSERT INTO clicks SELECT ad, click FROM log")
        assert rows(engine, "SELECT count(*) FROM clicks") == [(6,)]
        engine.execute("DROP TABLE clicks")
        refused(lambda: engine.execute("SELECT * FROM clicks"), "a dropped table")


def tables_outlive_the_engine(trial: EngineTrial) -> None:
    """A table belongs to the warehouse: an engine that is opened later sees it."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE kept AS SELECT ad, click FROM log")
    with trial.engine() as engine:
        assert rows(engine, "SELECT sum(click) FROM kept") == [(2,)]
        assert "kept" in engine.relations()


def a_statement_that_fails_changes_nothing(trial: EngineTrial) -> None:
    """A replacement whose query fails leaves the table that there was."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE kept AS SELECT ad FROM log")
        refused(lambda: engine.execute("CREATE OR REPLACE TABLE kept AS SELECT nothing FROM log"), "an unknown column")
        assert len(rows(engine, "SELECT * FROM kept")) == 4


def write_table_counts_and_replaces_only_when_told(trial: EngineTrial) -> None:
    """`write_table` returns the number of rows; without `replace` a name that is taken is refused."""
    with trial.engine() as engine:
        assert engine.write_table("out", ALL, False, "parquet") == 4
        refused(lambda: engine.write_table("out", ALL, False, "parquet"), "a table that exists")
        assert engine.write_table("out", f"{ALL} WHERE click = 0", True, "parquet") == 2
        assert rows(engine, "SELECT count(*) FROM out") == [(2,)]


def a_plain_query_of_files_is_read_in_place(trial: EngineTrial) -> None:
    """A scan of columns and renames gives the rows of the query, in the order of the file, nothing staged."""
    with trial.engine() as engine:
        found = engine.scan("SELECT click AS label, ad FROM log")
        assert not isinstance(found, Staged), "a scan of references is read in place"
        assert found.bounded
        assert found.exact
        assert not found.staged
        assert found.schema.names == ["label", "ad"]
        assert read(found).to_pydict() == {"label": CLICK, "ad": AD}


def other_queries_have_to_be_staged(trial: EngineTrial) -> None:
    """An aggregate is not row-wise; the reason is reported."""
    with trial.engine() as engine:
        found = engine.scan("SELECT ad, count(*) AS n FROM log GROUP BY ad")
        assert isinstance(found, Staged)
        assert found.reason
        assert found.schema.names == ["ad", "n"]


def staged_rows_keep_the_query_s_order(trial: EngineTrial) -> None:
    """`stage` writes Parquet files whose rows, file by file, are the query's in its order."""
    with trial.engine() as engine:
        found = engine.stage("SELECT price, ad FROM log WHERE price > 0 ORDER BY price DESC", trial.folder / "staged")
        assert found.staged
        assert found.exact
        assert sum(split.rows for split in found.splits()) == 3
        assert read(found).to_pydict() == {"price": [2.5, 1.5, 0.5], "ad": [None, "b", "a"]}


def files_are_written_by_the_function_that_is_given(trial: EngineTrial) -> None:
    """`write_files` names them part-<number><suffix>, and returns how many rows they have; one file where there are none."""
    with trial.engine() as engine:
        for query, count in ((ALL, 4), (f"{ALL} WHERE click = 7", 0)):
            folder = trial.folder / f"out{count}"
            folder.mkdir()
            assert engine.write_files(query, folder, ".parquet", write_parquet) == count
            names = sorted(path.name for path in folder.iterdir())
            assert names
            assert all(name.startswith("part-") and name.endswith(".parquet") for name in names)
            assert sum(pq.read_metadata(folder / name).num_rows for name in names) == count


def write_parquet(path: Path, reader: pa.RecordBatchReader) -> int:
    """Write rows as `write_files` wants it: a function that travels."""
    table = reader.read_all()
    pq.write_table(table, path)
    return int(table.num_rows)


def a_registered_view_is_replaced(trial: EngineTrial) -> None:
    """`register` makes files a temporary view, and takes the place of one of that name."""
    with trial.engine() as engine:
        path = trial.folder / "other.parquet"
        pq.write_table(LOG.slice(0, 1), path)
        engine.register("log", [path])
        assert rows(engine, "SELECT ad FROM log") == [("a",)]


def rows_in_memory_are_a_view_until_they_are_unregistered(trial: EngineTrial) -> None:
    """`register_rows` makes a table a temporary view in Spark's types; `unregister` drops it, and says whether it was there."""
    wide = pa.table({"n": pa.array([1, 2], pa.uint32()), "ad": pa.array(["x", None]).dictionary_encode()})
    with trial.engine() as engine:
        engine.register_rows("log", wide)
        assert rows(engine, "SELECT n, ad FROM log") == [(1, "x"), (2, None)]
        assert engine.schema("SELECT n, ad FROM log").types == [pa.int64(), pa.string()]
        engine.register_rows("log", wide.slice(1))
        assert rows(engine, "SELECT n FROM log") == [(2,)]
        assert engine.unregister("log")
        assert not engine.unregister("log")
        refused(lambda: engine.schema("SELECT n FROM log"), "log")


def relations_and_columns_are_listed(trial: EngineTrial) -> None:
    """For completion and error messages: names without those that statements make for themselves."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE kept AS SELECT ad FROM log")
        name = internal_name("call")
        engine.register(name, [trial.folder / "log.parquet"])
        assert {"log", "kept"} <= set(engine.relations())
        assert not [found for found in engine.relations() if found.startswith(INTERNAL)]
        assert engine.columns("log") == ["ad", "click", "price"]


def what_a_query_reads_is_named_with_its_files(trial: EngineTrial) -> None:
    """`sources` tells by name and digest whether two queries read the same files; a digest changes with them."""
    with trial.engine() as engine:
        engine.execute("CREATE TABLE kept AS SELECT ad FROM log")
        (before,), (again,) = engine.sources("SELECT ad FROM kept"), engine.sources("SELECT * FROM kept")
        assert (before.name, before.files >= 1, before.bytes > 0, len(before.digest)) == ("kept", True, True, 32)
        assert before == again
        engine.execute("INSERT INTO kept SELECT ad FROM log")
        (after,) = engine.sources("SELECT ad FROM kept")
        assert after.digest != before.digest


def a_view_can_be_dropped_if_it_is_there(trial: EngineTrial) -> None:
    """DROP VIEW IF EXISTS ends a temporary view, and is silent where there is none: calls of ML.* clean up by it."""
    with trial.engine() as engine:
        engine.execute("DROP VIEW IF EXISTS log")
        engine.execute("DROP VIEW IF EXISTS log")
        refused(lambda: engine.execute(ALL), "a dropped view")


def the_engine_says_what_it_runs(trial: EngineTrial) -> None:
    """Its name, and the words that its statements begin with; ours are distinguished by them."""
    with trial.engine() as engine:
        assert engine.name
        assert "SELECT" in engine.statements.names
        assert "TRAIN" not in " ".join(engine.statements.names)


def tasks_run_a_function_with_their_numbers(trial: EngineTrial) -> None:
    """An engine that offers tasks runs a function in as many as it is asked for; one without has None."""
    with trial.engine() as engine:
        if engine.tasks is None:
            return
        folder = str(trial.folder)
        running = engine.tasks.start(Mark(folder), 2, "marks", False)
        assert running.wait(60)
        assert sorted(path.name for path in trial.folder.glob("task-*")) == ["task-0", "task-1"]


class Mark:
    """Leaves a file named by the task's number."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, task: Any) -> None:
        Path(self.folder, f"task-{task.number}").touch()


ENGINE_CHECKS: tuple[Callable[[EngineTrial], None], ...] = (
    a_query_gives_its_rows_in_order,
    schemas_are_known_without_running,
    types_are_spark_s,
    a_reader_streams_what_execute_returns,
    an_unknown_column_is_refused_at_its_place,
    an_unknown_table_is_refused,
    text_that_is_no_statement_is_refused,
    a_query_is_wanted_where_a_statement_would_act,
    tables_are_made_filled_and_dropped,
    tables_outlive_the_engine,
    a_statement_that_fails_changes_nothing,
    write_table_counts_and_replaces_only_when_told,
    a_plain_query_of_files_is_read_in_place,
    other_queries_have_to_be_staged,
    staged_rows_keep_the_query_s_order,
    files_are_written_by_the_function_that_is_given,
    a_registered_view_is_replaced,
    rows_in_memory_are_a_view_until_they_are_unregistered,
    relations_and_columns_are_listed,
    what_a_query_reads_is_named_with_its_files,
    a_view_can_be_dropped_if_it_is_there,
    the_engine_says_what_it_runs,
    tasks_run_a_function_with_their_numbers,
)

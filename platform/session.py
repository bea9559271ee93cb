"""A session: an engine, the models of a warehouse, and the statements run on both."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .adapters.watching import told
from .engines import ENGINES
from .engines.base import INTERNAL
from .engines.kind import EngineKind, PendingEngine
from .errors import ModelError, StatementError, Subject, XpsqlError, brief, is_of_memory, suggestion
from .forks import check_process
from .local import local_path
from .model import Model
from .options import Value, parse
from .progress import Reporter, reporter_for
from .provenance.changing import recorded
from .result import Result, result_of
from .sql.base import TakesTasks
from .sql.functions_named import apply_text, fold_text
from .sql.parameters import Parameters
from .sql.query import Query
from .sql.script import Step, at_statement, parse_script, refusing_excess
from .stacks import roomy
from .system import explained, of_library, of_system
from .trust import TRUST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..warehouse.models import Models
    from .engines.base import Engine

DEFAULT_WAREHOUSE = "xpsql_warehouse"
WORD = re.compile(r"\w+")


class Session:
    """Runs statements, ours and the engine's; a context manager.

    Example:
        with xpsql.connect(warehouse="warehouse") as session:
            session.sql("SELECT * FROM ML.PREDICT(MODEL ctr, TABLE ${day})", day="tuesday").to_pandas()

    Attributes:
        models: the models of the warehouse.
        reporter: receives the progress of trainings.
        resumes: whether a statement continues its interrupted training instead of beginning again.
        closed: whether it was closed; it then runs nothing.
    """

    def __init__(self, engine: Engine | PendingEngine, models: Models, reporter: Reporter, resumes: bool = False) -> None:
        self._engine = engine
        self.models = models
        self.reporter = reporter
        self.resumes = resumes
        self.closed = False
        self._process = os.getpid()

    @property
    def engine(self) -> Engine:
        """Runs queries."""
        if isinstance(self._engine, PendingEngine):
            with explained():
                self._engine = self._engine.open()
        return self._engine

    def sql(self, text: str, /, parameters: Parameters | None = None, **variables: object) -> Result:
        """Run one or more statements separated by `;` and return the result of the last one.

        Args:
            text: the statements; all of ours are parsed before the first one runs.
            parameters: the values of `?` as a list, or of `:name` as a dict: numbers, texts, bytes, dates, times, None and
                lists of these. Each becomes a literal of its type.
            variables: the values of `${name}`, put in as `str` writes them, without quotes; None is NULL. `${name:-default}`
                needs none.

        Raises:
            XpsqlError: with what was expected, what came and what to do; statements after the one that failed do not run.
        """
        result = Result(None)
        written = {name: "NULL" if value is None else str(value) for name, value in variables.items()}
        try:
            for result in self.run(text, written, parameters):  # noqa: B007
                pass
        except StatementError as error:
            if error.message.startswith("There is no table or view "):
                from .frames import note_variable

                note_variable(error, sys._getframe(1))
            raise
        return result

    def run(self, text: str, variables: Mapping[str, str], parameters: Parameters | None) -> Iterator[Result]:
        """Run statements one by one, giving the result of each before the next one starts."""
        try:
            for step in self.parse(text, variables, parameters):
                yield run_step(self, step)
        except XpsqlError as error:
            error.script = text
            raise

    @roomy
    def parse(self, text: str, variables: Mapping[str, str], parameters: Parameters | None) -> tuple[Step, ...]:
        """Return the statements of a script; if the engine has not started, refuse those that it will have no room for.

        Raises:
            StatementError: see parse_script, and places_of of the trainings.
        """
        self._check_open()
        steps = parse_script(text, variables, parameters, self._engine.statements)
        if isinstance(self._engine, PendingEngine) and self._engine.room is not None:
            first = True
            for command, position, _ in steps:
                if isinstance(command, TakesTasks):
                    with at_statement(position):
                        command.check_room(self, self._engine.room, first)
                first = first and isinstance(command, Query)
        return steps

    def fold(self, model: str, fold: str, /, version: int | None = None, **options: object) -> Result:
        """Return what ML.FOLD says of all rows of a version: session.fold("ctr", "norm", by="slot")."""
        return self.sql(fold_text(model, version, fold, options))

    def apply(self, model: str, update: str, /, where: str | None = None, **options: object) -> Result:
        """Make a version as ALTER MODEL ... APPLY does: session.apply("ctr", "scale", factor=0.5, where="count < 10")."""
        return self.sql(apply_text(model, update, where, options))

    def register(self, name: str, frame: object) -> None:
        """Register a frame as a table of this session; its name hides any other table of that name.

        Args:
            name: a plain word, compared without case.
            frame: of pandas or Polars, an Arrow table, batch or reader, or anything with `__arrow_c_stream__`. The embedded
                engine scans Arrow's memory where it is; a stream is read first. Spark gets a file in the warehouse.

        Raises:
            StatementError: the name is not a word, or `frame` is not a frame.
        """
        from .frames import arrow_of

        self._check_open()
        if not isinstance(name, str) or not WORD.fullmatch(name) or name.lower().startswith(INTERNAL):
            raise StatementError(f"Expected a name of letters, digits and _ that does not begin with {INTERNAL}, got {name!r}.")
        with explained():
            self.engine.register_rows(name, arrow_of(frame))

    def unregister(self, name: str) -> None:
        """Remove a registered frame.

        Raises:
            StatementError: no frame has this name.
        """
        self._check_open()
        if not self.engine.unregister(name):
            raise StatementError(f"No frame is registered as {name!r}.{suggestion(name, self.engine.relations())}")

    def model(self, name: str, version: int | None = None) -> Model:
        """Return a model, for use from Python.

        Args:
            version: its number; None for the version served at each call.

        Raises:
            ModelError: there is no such model or version.
            StatementError: the name is no text.
        """
        self._check_open()
        if not isinstance(name, str):
            raise StatementError(f"Expected the name of a model, got {type(name).__name__}.")
        with explained():
            self.models.find(name, version)
        return Model(self, name, version)

    def _check_open(self) -> None:
        check_process(self._process)
        if self.closed:
            raise XpsqlError("This session is closed and runs nothing more. Open another one with xpsql.connect().")

    def close(self) -> None:
        """Release what the engine holds; tables and models stay. Closing again does nothing."""
        if not self.closed:
            self.closed = True
            if self._process == os.getpid() and not isinstance(
                self._engine, PendingEngine
            ):  # what a child closes is its parent's
                self._engine.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(list(self.models.names(None)))} models"
        return f"<xpsql.Session on {self._engine.name}, warehouse {str(self.models.warehouse)!r}, {state}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


@roomy
def run_step(session: Session, step: Step) -> Result:
    """Run a statement of a script; an error has its position in the script."""
    session._check_open()
    try:
        of_step, note = (session.models, step.text.text, step.model), session.reporter.note
        with refusing_excess(step.position), told(*of_step, lambda: session.engine, note), recorded(*of_step, note):
            return result_of(step.command.run(session), step.text.text)
    except StatementError as error:
        from .engines.spark_sql.bad_values import located

        if (
            not isinstance(session._engine, PendingEngine)
            and (placed := located(error, step.text.text, session._engine)) is not None
        ):
            raise placed.at(step.text.restated(placed.position)) from error.__cause__
        if error.position is None:
            raise error.at(step.position) from error.__cause__
        raise
    except ConnectionError:  # of whoever reads the output
        raise
    except OSError as error:
        raise of_system(error, step.position) from error
    except XpsqlError as error:
        if isinstance(error, ModelError):
            error.position = step.place_of(error.model)
        if error.position is None:
            line, column, text = step.position
            error.add_note(f"In the statement at line {line}, column {column}: {brief(text)}")
        raise
    except Exception as error:
        if (found := of_library(error)) is None or is_of_memory(error):
            raise
        found.position = step.position
        raise found from error


def connect(
    warehouse: str | Path | None = None,
    engine: str | SparkSession | None = None,
    reporter: Reporter | None = None,
    *,
    resume: bool = False,
    trust: bool = False,
    **options: Any,
) -> Session:
    """Open a session, and start its engine.

    Args:
        warehouse: the folder of tables and models, a path or file:// URL; by default $XPSQL_WAREHOUSE or ./xpsql_warehouse.
            It is made by the first statement that writes.
        engine: where queries run: "duckdb", "spark", or a Spark session that runs. By default duckdb; spark if a master
            is given, and in a program that spark-submit runs.
        reporter: receives the progress of trainings; by default a bar or log lines on stderr.
        resume: continue an interrupted TRAIN or CONTINUE from its last checkpoint.
        trust: run the source text in models of the algorithm `network`, in this process and, without asking, in later ones of
            this user.
        options: of the engine; None is the same as not given. Of spark: `master`, where Spark is started ("local[4]",
            "spark://host:7077"; by default what spark-submit says, or local[*]), and `conf`, settings of a Spark that is
            started ({"spark.driver.memory": "4g"}).

    Raises:
        StatementError: an engine or a kind of URL that does not exist, or a Spark that does not start.
        NotAvailableError: Spark is asked for, and PySpark or Java are missing.
    """
    session = pending(warehouse, engine, reporter, resume=resume, trust=trust, **options)
    session.engine  # noqa: B018  it starts
    return session


def pending(
    warehouse: str | Path | None = None,
    engine: str | SparkSession | None = None,
    reporter: Reporter | None = None,
    *,
    resume: bool = False,
    trust: bool = False,
    **options: Any,
) -> Session:
    """Open a session whose engine may start later, when a statement needs it; see connect."""
    with explained():
        root = warehouse_path(warehouse if warehouse is not None else os.environ.get("XPSQL_WAREHOUSE", DEFAULT_WAREHOUSE))
        opened = open_engine(engine, root, {name: value for name, value in options.items() if value is not None})

    from ..warehouse.models import Models

    if trust:
        TRUST.allow(keep=True)
    return Session(opened, Models(root), reporter or reporter_for(sys.stderr, quiet=False), resume)


def open_engine(engine: object, warehouse: Path, given: Mapping[str, Any]) -> Engine | PendingEngine:
    """Open an engine by its name, on an object that one of them adopts, or, for None, the one that a session has by default;
    or leave that to the first statement that needs it.

    Args:
        given: the options of the engine.
    """
    if engine is not None and not isinstance(engine, str):
        return adopted(engine, warehouse, given)
    kind = default_engine(given) if engine is None else engine_named(engine)
    if given and not dataclasses.fields(kind.options):
        takers = ", ".join(
            other.name for other in ENGINES if given.keys() <= {field.name for field in dataclasses.fields(other.options)}
        )
        raise StatementError(
            f"The engine {kind.name} has no options, got {', '.join(given)}. Leave that out"
            f"{f', or choose the engine {takers}' if takers else ''}."
        )
    return (kind.pend or kind.open)(
        warehouse, parse(kind.options, {name: Value(value) for name, value in given.items()}, Subject("ENGINE", kind.name))
    )


def adopted(engine: object, warehouse: Path, given: Mapping[str, Any]) -> Engine:
    """Open the engine that takes an object in place of a name."""
    if given:
        raise StatementError(f"A session that runs has its {' and '.join(given)} already; leave that out.")
    adopt = next(kind.adopt for kind in ENGINES if kind.adopt is not None)
    return adopt(engine, warehouse)


def default_engine(given: Collection[str]) -> EngineKind[Any]:
    """Return the engine of a session that names none, by the options that are given."""
    return next((kind for kind in ENGINES if kind.prefers(given)), ENGINES[0])


def engine_named(name: str) -> EngineKind[Any]:
    """Return the engine of a name, compared without case."""
    for kind in ENGINES:
        if kind.name == name.lower():
            return kind
    raise StatementError(f"There is no engine {name!r}.{suggestion(name, [kind.name for kind in ENGINES])}")


def warehouse_path(warehouse: str | Path) -> Path:
    """Return the absolute folder that a path or file:// URL names.

    Raises:
        StatementError: a URL of another kind, or something that is no folder.
    """
    path = local_path(str(warehouse), "A warehouse", None)
    if path.exists() and not path.is_dir():
        raise StatementError(f"The warehouse {path} is a file; it must be a folder, or nothing yet.")
    return path

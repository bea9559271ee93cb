"""The DB-API 2.0 of PEP 249, for tools that speak it.

Statements take effect at once, so `commit` does nothing and `rollback` is refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from .platform.errors import DataError as WrongData
from .platform.errors import NotAvailableError, StatementError, XpsqlError
from .platform.progress import SilentReporter
from .platform.result import Result, Row
from .platform.session import Session
from .platform.session import connect as open_session

apilevel, threadsafety, paramstyle = "2.0", 1, "qmark"
Description = tuple[str, str | None, None, None, None, None, bool]


class Warning(Exception):
    """Something important that is no error; never raised here."""


class Error(Exception):
    """Base of all errors of this module; its cause is the error of xpsql."""


class InterfaceError(Error):
    """A wrong use of this module."""


class DatabaseError(Error):
    """Base of the errors of statements."""


class DataError(DatabaseError):
    """Data that cannot be used."""


class OperationalError(DatabaseError):
    """A statement that failed while it ran."""


class IntegrityError(DatabaseError):
    """Never raised: there are no constraints."""


class InternalError(DatabaseError):
    """Never raised."""


class ProgrammingError(DatabaseError):
    """A statement that cannot run, a wrong number of parameters, or a cursor without a result."""


class NotSupportedError(DatabaseError):
    """What xpsql does not have."""


STRING, BINARY, NUMBER, DATETIME, ROWID = "STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"
TYPES = {
    STRING: ("string", "large_string"),
    BINARY: ("binary", "large_binary"),
    NUMBER: ("integer", "floating", "decimal", "boolean"),
    DATETIME: ("date", "timestamp", "time"),
}


def type_code(kind: pa.DataType) -> str | None:
    """Return the group of a type; None for arrays, maps and structs."""
    return next((code for code, names in TYPES.items() if any(getattr(pa.types, f"is_{name}")(kind) for name in names)), None)


Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp
TimeFromTicks = lambda ticks: TimestampFromTicks(ticks).time()  # noqa: E731


def connect(warehouse: str | Path | None = None, **options: Any) -> Connection:
    """Open a connection; it takes the arguments of `xpsql.connect`."""
    try:
        return Connection(open_session(warehouse, **{"reporter": SilentReporter(), **options}))
    except XpsqlError as error:
        raise translated(error) from error


def translated(error: XpsqlError) -> DatabaseError:
    """Return an error of xpsql as this module's."""
    kinds = {NotAvailableError: NotSupportedError, StatementError: ProgrammingError, WrongData: DataError}
    return next((made for kind, made in kinds.items() if isinstance(error, kind)), OperationalError)(str(error))


class Connection(AbstractContextManager["Connection"]):
    """A session; a context manager that closes it."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        self._check()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: statements have taken effect."""
        self._check()

    def rollback(self) -> None:
        """Raise NotSupportedError: statements have taken effect."""
        raise NotSupportedError("Statements take effect at once; there is nothing to roll back.")

    def close(self) -> None:
        """Close the session."""
        self.session.close()

    def _check(self) -> None:
        if self.session.closed:
            raise InterfaceError("The connection is closed. Open another one with connect().")

    def __exit__(self, *raised: object) -> None:
        self.close()


class Cursor:
    """Runs statements and gives their rows, of which there are `rowcount`; -1 where a statement gives none."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize, self.rowcount = 1, -1
        self._result: Result | None = None
        self._closed = False

    @property
    def description(self) -> list[Description] | None:
        """A tuple of seven for each column of the result: name, type code, four times None, whether it can be NULL."""
        if self._result is None or self._result.table is None:
            return None
        return [(field.name, type_code(field.type), None, None, None, None, True) for field in self._result.table.schema]

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Run one or more statements; `?` takes its value from `parameters`."""
        self._check()
        self._result, self.rowcount = None, -1
        try:
            self._result = self.connection.session.sql(operation, parameters)
        except XpsqlError as error:
            raise translated(error) from error
        self.rowcount = -1 if self._result.table is None else len(self._result)
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Cursor:
        """Run a statement once for each sequence of parameters."""
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
        return self

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last one."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next rows, `size` or `arraysize` of them."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """Return the rows that are left."""
        return self._rows().fetchall()

    def close(self) -> None:
        """Run nothing more."""
        self._closed, self._result = True, None

    def setinputsizes(self, *sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""

    setoutputsize = setinputsizes

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def _check(self) -> None:
        self.connection._check()
        if self._closed:
            raise InterfaceError("The cursor is closed. Make another one with connection.cursor().")

    def _rows(self) -> Result:
        self._check()
        if self._result is None or self._result.table is None:
            raise ProgrammingError("There is no result to fetch. Execute a query first.")
        return self._result

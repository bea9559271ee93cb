"""Lists of columns in statements: `a INT, b STRING COMMENT 'text'`."""

from __future__ import annotations

from sqlglot import exp

from ...errors import NotAvailableError, Position, StatementError
from .dialect import parse


def column_types(listed: str, position: Position | None) -> dict[str, str]:
    """Return the columns of a list and their types in DuckDB's words.

    Raises:
        StatementError: the list cannot be read, names a column twice, or asks for more than a type and a comment.
    """
    try:
        tree = parse(f"CREATE TABLE columns ({listed.strip()})")
    except StatementError as error:
        at = f" at {error.position.text!r}" if error.position is not None and error.position.text else ""
        message = f"The list of columns is not Spark SQL{at}. Write names and types, such as (user STRING, tags ARRAY<STRING>)."
        raise StatementError(message, position) from error
    columns: dict[str, str] = {}
    if not tree.this.expressions:
        raise StatementError("The list of columns is empty: write (name type, ...).", position)
    for column in tree.this.expressions:
        if not isinstance(column, exp.ColumnDef) or column.kind is None:
            raise StatementError(f"A column is a name and a type, got {column.sql('spark')!r}.", position)
        for constraint in column.constraints:
            if not isinstance(constraint.kind, exp.CommentColumnConstraint):
                message = f"Column {column.name} can have a type and a COMMENT, got {constraint.sql('spark')}."
                raise NotAvailableError(message, position)
        if column.name.lower() in map(str.lower, columns):
            raise StatementError(f"The column {column.name} is listed twice.", position)
        columns[column.name] = type_name(column.kind)
    return columns


def type_name(kind: exp.DataType) -> str:
    """Return a type in DuckDB's words; DECIMAL without digits is Spark's DECIMAL(10, 0)."""
    whole = kind.copy()
    for part in whole.find_all(exp.DataType):
        if part.is_type(exp.DataType.Type.DECIMAL) and not part.expressions:
            part.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(digits)) for digits in (10, 0)])
        if part.is_type(exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.TIMESTAMP):
            part.set("this", exp.DataType.Type.TIMESTAMPTZ)
    return whole.sql(dialect="duckdb")

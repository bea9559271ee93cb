"""Frames of other libraries as Arrow tables: pandas, Polars, Arrow, and whatever else gives an Arrow stream."""

from __future__ import annotations

from collections import Counter
from types import FrameType

import pyarrow as pa

from .errors import StatementError

FRAMES = "a pandas or Polars frame, an Arrow table, batch or reader, or an object with __arrow_c_stream__"


def arrow_of(frame: object) -> pa.Table:
    """Return a frame as an Arrow table over the same memory where its columns are Arrow's, or arrays of numbers side by side.

    A stream is read to its end. The index of a pandas frame is left out; what pandas means by missing is NULL, and a column of
    objects without any value one of strings.

    Raises:
        StatementError: it is no frame, a column has values of several types, two columns have one name, or there are none.
    """
    table = read(frame)
    if not table.num_columns:
        raise StatementError("The frame has no columns. Give it one or more, with names.")
    count = Counter(map(str.lower, table.column_names))
    wrong = [repr(name) for name in table.column_names if not name or count[name.lower()] > 1]
    if wrong:
        raise StatementError(f"Columns do not differ by their names: {', '.join(wrong)}. Rename them in the frame.")
    return table


def is_frame(value: object) -> bool:
    """Return whether a value is what `arrow_of` takes, without reading it."""
    return (
        isinstance(value, pa.Table | pa.RecordBatch)
        or hasattr(value, "__arrow_c_stream__")
        or "DataFrame" in type(value).__name__
    )


def note_variable(error: StatementError, caller: FrameType | None) -> None:
    """Let an error about an absent table name `register`, where the caller, or who called it, has a frame of that name."""
    name = error.position.text if error.position is not None else ""
    while caller is not None and not is_frame(caller.f_locals.get(name, caller.f_globals.get(name))):
        caller = caller.f_back
    if caller is not None:
        error.add_note(f"The variable {name} is a frame; session.register({name!r}, {name}) makes it readable in statements.")


def read(frame: object) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns"):
        columns = [str(name) for name in frame.columns]
        if len({*columns}) < len(columns):
            return pa.table([pa.nulls(0)] * len(columns), names=columns)  # whose names are refused, as of any frame
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        except pa.ArrowException as error:
            raise StatementError(f"The frame has no columns of one type each: {'; '.join(map(str, error.args))}.") from error
        types = [pa.string() if pa.types.is_null(field.type) else field.type for field in table.schema]
        return table.cast(pa.schema(zip(table.column_names, types, strict=True)))
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame).read_all()
    raise StatementError(f"Expected {FRAMES}; got {type(frame).__name__}.")

"""A folder in which files arrive, and what tests ask of the models that learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import xpsql
from tests.training.log import log, write

COLUMNS = "label, ts, user, item, price"
AVAILABLE = "WITH (until = 'available', workers = 1, batch_size = 64)"
EVERYTHING = "SELECT slot, key, weight, count, updates, last_seen, shows, clicks FROM ML.WEIGHTS(MODEL {model}) ORDER BY key"


def arrives(folder: Path, name: str, rows: int, seed: int) -> Path:
    """Let a file of new rows arrive."""
    folder.mkdir(exist_ok=True)
    return write(log(rows, seed), folder / f"{name}.parquet", row_group_rows=200)


def train(session: xpsql.Session, stream: str, columns: str = COLUMNS, model: str = "m") -> dict[str, Any]:
    """Train a model on what a stream has, and return what the statement answers."""
    return answer(session, f"TRAIN MODEL {model} USING xftrl TIME ts {AVAILABLE} AS SELECT {columns} FROM STREAM {stream}")


def go_on(session: xpsql.Session, stream: str, columns: str = COLUMNS, settings: str = "", model: str = "m") -> dict[str, Any]:
    """Go on with what has come since."""
    text = f"CONTINUE MODEL {model} WITH (until = 'available'{settings}) AS SELECT {columns} FROM STREAM {stream}"
    return answer(session, text)


def answer(session: xpsql.Session, text: str) -> dict[str, Any]:
    (row,) = session.sql(text).arrow().to_pylist()
    return dict(row)


def learned(row: dict[str, Any]) -> tuple[int, str, int]:
    """Return what tests look at of an answer."""
    return row["version"], row["status"], row["examples"]


def rows_of(session: xpsql.Session, model: str = "m") -> pa.Table:
    """Return every row of a model with all that it keeps."""
    return session.sql(EVERYTHING.format(model=model)).arrow()


def read(*paths: Path) -> str:
    """Return the rows of some files one after the other, as a query's relation."""
    return "(" + " UNION ALL ".join(f"SELECT * FROM parquet.`{path}`" for path in paths) + ")"

"""Small models made by hand, for tests of what reads them."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from xpsql.warehouse.draft import Draft
from xpsql.warehouse.entries import PartEntry, RolesEntry, SlotEntry, TableEntry
from xpsql.warehouse.manifest import Manifest
from xpsql.warehouse.models import Models
from xpsql.warehouse.rows import rows_schema

TABLE = TableEntry("w", 1, {"z": 1, "n": 1, "w": 1})
VECTORS = TableEntry("v", 2, {"w": 2})
MANIFEST = Manifest(
    statement="TRAIN MODEL ctr USING xftrl (alpha = 0.1) AS SELECT * FROM log",
    query="SELECT * FROM log",
    algorithm=PartEntry("xftrl", {"alpha": 0.1}),
    operators=(PartEntry("decay", {"rate": 0.99}),),
    slots=(
        SlotEntry("carrier", "categorical", "string", 0),
        SlotEntry("hour", "continuous", "double", 1),
        SlotEntry("rare", "bag", "array", 2),
    ),
    roles=RolesEntry(("label",)),
    settings={"batch_size": 1024, "seed": 7},
    tables=(TABLE,),
)
LEARNED: dict[str, object] = {"examples": 100, "rows": None, "base_rate": 0.2, "calibration": ()}
WEIGHTS = ((-5, 0, 40, 40, 10, 1_700_000_000, 0.5), (7, 0, 50, 25, 1, 0, -1.5), (9, 1, 100, 100, 20, 60, 0.0))


def rows(weights: tuple[tuple[float, ...], ...] = WEIGHTS) -> pa.RecordBatch:
    """Return rows of TABLE: key, slot, shows, updates, clicks, last_seen, w each."""
    schema = rows_schema(TABLE)
    values = [
        {"key": key, "slot": slot, "count": shows, "updates": updates, "shows": shows, "clicks": clicks}
        | {"last_seen": seen, "z": 0.0, "n": 0.0, "w": weight}
        for key, slot, shows, updates, clicks, seen, weight in weights
    ]
    return pa.RecordBatch.from_pylist(values, schema=schema)


def fill(draft: Draft, batch: pa.RecordBatch | None = None, **fields: object) -> None:
    """Write rows into a draft and commit it."""
    batch = rows() if batch is None else batch
    with draft.writer(TABLE) as writer:
        writer.write(batch)
    metrics = {"examples": 100.0, "auc": 0.75, "logloss": 0.5}
    learned = {name: fields.pop(name, value) for name, value in LEARNED.items()}
    learned["rows"] = batch.num_rows if learned["rows"] is None else learned["rows"]
    values = {"metrics": metrics} | fields
    draft.commit(dataclasses.replace(draft.manifest, **values).having_learned(**learned))


def train(models: Models, name: str = "ctr", replace: bool = False, parent: int | None = None, **fields: object) -> int:
    """Make one ready version and return its number."""
    with models.begin(name, dataclasses.replace(MANIFEST, parent=parent), replace) as draft:
        draft.progress({"batch": 10, "examples": 100, "auc": 0.7})
        fill(draft, **fields)
        return draft.number

"""A log of clicks that depend on whether the category of the target is in the user's history, which no sum of slots tells."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ITEMS, CATEGORIES = 120, 12
SHARED = "share = (clicked_items AS item, clicked_categories AS category)"
HISTORY = "target = (item, category), history = (clicked_items, clicked_categories)"
STRUCT = pa.list_(pa.struct([("item", pa.int64()), ("category", pa.int64())]))


def interests(rows: int, seed: int = 0, longest: int = 6) -> pa.Table:
    """Return rows with a history of 0 to `longest` items, as two arrays and as one of structs, and the label of a click."""
    random = np.random.default_rng(seed)
    item, lengths = random.integers(0, ITEMS, rows), random.integers(0, longest + 1, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    clicked = random.integers(0, ITEMS, lengths.sum())
    seen = np.zeros((rows, CATEGORIES), np.bool_)
    seen[np.repeat(np.arange(rows), lengths), clicked % CATEGORIES] = True
    wanted = seen[np.arange(rows), item % CATEGORIES]
    items, categories = (pa.ListArray.from_arrays(offsets, pa.array(values)) for values in (clicked, clicked % CATEGORIES))
    pairs = pa.StructArray.from_arrays([pa.array(clicked), pa.array(clicked % CATEGORIES)], ["item", "category"])
    return pa.table(
        {
            "label": (random.random(rows) < np.where(wanted, 0.8, 0.1)).astype(np.int8),
            "user": random.integers(0, 50, rows),
            "item": item,
            "category": item % CATEGORIES,
            "clicked_items": items,
            "clicked_categories": categories,
            "clicks": pa.ListArray.from_arrays(offsets, pairs),
        }
    )

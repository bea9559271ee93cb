"""A kind of slot that is not the product's: the hour of a timestamp as a category. One file, and one line in KINDS."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xpsql.platform.input.kinds.base import Encoding, ScalarKind
from xpsql.platform.input.slot import Slot
from xpsql.platform.input.vocabulary import ABSENT, Codes, keys_of


class Hour(ScalarKind):
    name = "hour"
    types = "timestamps are hours"

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and bool(pa.types.is_timestamp(type))

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding, out: Codes) -> None:
        first = encoding.add(keys_of(pa.array(np.arange(24)), slot), slot)
        hours = pc.hour(column)
        out[:] = np.where(hours.is_null().to_numpy(), ABSENT, first + hours.fill_null(0).to_numpy())


HOUR = Hour()

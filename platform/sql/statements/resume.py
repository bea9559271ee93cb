"""RESUME MODEL: go on with a training whose driver died."""

from __future__ import annotations

from typing import NoReturn

from ...errors import NotAvailableError
from ..base import Statement
from ..cursor import Cursor


def parse(cursor: Cursor) -> NoReturn:
    position = cursor.position()
    cursor.identifier("a model name")
    cursor.done()
    raise NotAvailableError("RESUME MODEL is parsed but not available yet. Train again with TRAIN OR REPLACE MODEL.", position)


RESUME = Statement("RESUME MODEL", "RESUME MODEL name", "Go on with a training whose driver died (not available yet).", parse)

"""The kinds of slots: a column's is the first that accepts its type and its role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ....algorithms.blocks.base import SlotBlock
from ...errors import ModelError
from .base import BlockKind, Kind
from .categorical import CATEGORICAL
from .continuous import CONTINUOUS
from .events import MOMENT, PAST, PAST_MOMENT, USER
from .multi import MULTI
from .sequence import SEQUENCE
from .vector import VECTOR
from .vector_array import VECTOR_ARRAY
from .weighted import WEIGHTED

KINDS: tuple[Kind, ...] = (
    CATEGORICAL, CONTINUOUS, MULTI, VECTOR, WEIGHTED, SEQUENCE, VECTOR_ARRAY, USER, MOMENT, PAST, PAST_MOMENT
)  # fmt: skip


def kind_named(name: str) -> Kind:
    """Return the kind that a manifest or a slot names.

    Raises:
        ModelError: there is none of that name.
    """
    found = next((kind for kind in KINDS if kind.name == name), None)
    if found is None:
        raise ModelError(
            f"The model has a slot of the kind {name!r}, and there are {', '.join(kind.name for kind in KINDS)} here. Use the "
            "xpsql that trained it, whose KINDS has that kind."
        )
    return found


def kind_accepting(type: pa.DataType, role: str) -> Kind | None:
    """Return the kind of a column with this type and role ("" for none); None where it cannot be a slot."""
    return next((kind for kind in KINDS if kind.accepts(type, role)), None)


def blocks() -> Iterable[SlotBlock[Any, Any, Any]]:
    """Return the blocks of all kinds, each once, in the order of KINDS."""
    return dict.fromkeys(kind.block for kind in KINDS if isinstance(kind, BlockKind))


def words_for(role: str) -> str:
    """Return the types that columns of a role have, in words for messages."""
    return "; ".join(kind.types for kind in KINDS if kind.types and kind.role == role)

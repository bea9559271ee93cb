"""Families of Arrow types that kinds of slots and roles accept."""

from __future__ import annotations

import pyarrow as pa


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_weight(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))

"""Spark SQL to DuckDB's SQL, with Spark's values and types: `translate` is the entry; everything that other rooms use is here.

`make_macros` makes in a connection the macros that a translation calls, `share_macros` reuses another connection's.
`spark_cast` and `string_of` are casts of Spark as expressions, INSTANT the type of a moment, `json_fields` and `json_shape` a
struct's fields as functions of JSON take them. `common`, `wider`, `decimal_sum` and `decimal_product` give the type that values
of several types have together, RENAMED other names of functions.
"""

from __future__ import annotations

from .casts import spark_cast, string_of
from .coercion import Kind, common, wider
from .decimals import Decimal
from .decimals import added as decimal_sum
from .decimals import multiplied as decimal_product
from .functions import RENAMED
from .json_text import json_fields, json_shape
from .kinds import INSTANT
from .macros import make_macros, share_macros
from .transpile import translate

__all__ = [
    "INSTANT",
    "RENAMED",
    "Decimal",
    "Kind",
    "common",
    "decimal_product",
    "decimal_sum",
    "json_fields",
    "json_shape",
    "make_macros",
    "share_macros",
    "spark_cast",
    "string_of",
    "translate",
    "wider",
]

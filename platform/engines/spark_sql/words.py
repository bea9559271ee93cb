"""Names of Spark SQL that parsing, naming and translation share."""

from __future__ import annotations

TYPE_NAMES = {
    "double",
    "int",
    "string",
    "bigint",
    "float",
    "decimal",
    "smallint",
    "tinyint",
    "boolean",
    "date",
    "timestamp",
    "binary",
}


EXPLODES = frozenset(
    ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple")
)

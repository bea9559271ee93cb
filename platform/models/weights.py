"""The weights of a version as a relation of SQL: the columns of ML.WEIGHTS, from the stored rows.

The engine reads the Parquet files, so a model of any size streams. Everything here is Spark SQL.
platform/operators/lifetimes/feature_value.py defines utility and information; the latter is NULL without a base rate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...warehouse.entries import TableEntry
from ...warehouse.manifest import Manifest
from ...warehouse.version import Version
from ..engines.base import internal_name
from ..operators.lifetimes.feature_value import RECENT_CLICKS, RECENT_SHOWS, Sql, as_sql, information, sql_ln, utility
from ..ps.keys import slot_seed
from ..quoting import literal
from ..training.graphs.versions import has_vertices
from ..udf.hashes import raw_id
from .changes import register_rows
from .vertices import value_of

if TYPE_CHECKING:
    from ..engines.base import Engine


OFFERED, NOTHING_OFFERED = "offered", "CAST(NULL AS ARRAY<FLOAT>)"


@dataclass(frozen=True)
class Relation:
    """The weights of a version in an engine: per table of the model a view of its rows, and the columns over them."""

    views: Mapping[str, str]
    columns: Mapping[str, Mapping[str, str]]

    def select(self) -> str:
        """Return the query of all weights."""
        return "\nUNION ALL\n".join(self.select_table(table) for table in self.views)

    def select_table(self, table: str, names: Collection[str] | None = None, extra: Mapping[str, str] | None = None) -> str:
        """Return the query of a table's weights: all columns, or the columns in `names`, and more, name -> expression over a
        row."""
        columns = {n: e for n, e in self.columns[table].items() if names is None or n in names}
        listed = ", ".join(f"{expression} AS `{name}`" for name, expression in {**columns, **(extra or {})}.items())
        return f"SELECT {listed} FROM {self.views[table]}"


@contextlib.contextmanager
def weights(version: Version, engine: Engine) -> Iterator[Relation]:
    """Make the rows of a version readable in an engine, for the length of a block.

    Raises:
        ModelError: the version was dropped meanwhile.
    """
    tables = version.manifest.tables
    views = {table.name: internal_name("rows") for table in tables}
    with contextlib.ExitStack() as stack:
        for table in tables:
            register_rows(version, table, engine, views[table.name], stack)
        yield relation_of(version, views)


def relation_of(version: Version, views: Mapping[str, str]) -> Relation:
    """Return the weights in views of stored rows, by table."""
    return Relation(views, {table.name: _columns(version.manifest, table) for table in version.manifest.tables})


def _columns(manifest: Manifest, table: TableEntry) -> dict[str, str]:
    """Return the columns of ML.WEIGHTS as expressions over a table's stored rows.

    A model of several tables has a leading column `table`, and `weights` arrays in all of them. A model whose operators offer
    something of features has a last column `offered`, in the order of their names. A vertex program has slot, key, value, and
    count, the vertex's degree.
    """
    if has_vertices(manifest):
        count = "CAST(`count` AS BIGINT)"
        return {"slot": _slot_name(manifest), "key": _key(manifest), "value": value_of(manifest), "count": count}
    several = len(manifest.tables) > 1
    weight = {"weight": "w"} if table.dim == 1 else {"weights": "w"}
    if several:
        weight = {"weights": "array(w)" if table.dim == 1 else "w"}
    return {
        **({"table": literal(table.name)} if several else {}),
        "slot": _slot_name(manifest),
        "key": _key(manifest),
        **weight,
        "count": "CAST(`count` AS BIGINT)",
        "updates": "CAST(updates AS BIGINT)",
        "last_seen": "CASE WHEN last_seen > 0 THEN timestamp_seconds(last_seen) END",
        "shows": "CAST(shows AS BIGINT)",
        "clicks": "CAST(clicks AS BIGINT)",
        "utility": utility(_recent(table, RECENT_SHOWS, "shows"), Sql(magnitude(table)), sql_ln).text,
        "information": _information(table, manifest.learned.base_rate),
        **({OFFERED: OFFERED if OFFERED in table.columns else NOTHING_OFFERED} if offers(manifest) else {}),
    }


def offers(manifest: Manifest) -> bool:
    """Return whether a version's operators offer inputs for features, such as auto_session's click rates."""
    return any(OFFERED in table.columns for table in manifest.tables)


def _slot_name(manifest: Manifest) -> str:
    """Return the expression of a row's slot name; a slot that uses another's rows has none of its own."""
    whens = [f"WHEN {slot.number} THEN {literal(slot.name)}" for slot in manifest.slots if slot.share is None]
    return f"CASE slot {' '.join(whens)} END" if whens else "CAST(NULL AS STRING)"


def _key(manifest: Manifest) -> str:
    """Return the expression of a row's key: of a slot of ready-made ids that are keys the id, but for its NULL."""
    raw = [slot for slot in manifest.slots if slot.raw and slot.share is None]
    ids = " OR ".join(f"slot = {slot.number} AND `key` <> {signed(slot_seed(slot.name))}" for slot in raw)
    return f"CASE WHEN {ids} THEN {raw_id.name}(`key`) ELSE `key` END" if raw else "`key`"


def signed(key: int) -> int:
    """Return a key as SQL has it."""
    return key - (1 << 64) if key >> 63 else key


def magnitude(table: TableEntry) -> str:
    """Return the expression of a weight's size: |w|, or the norm of a vector."""
    if table.dim == 1:
        return "abs(CAST(w AS DOUBLE))"
    return "sqrt(aggregate(w, 0D, (total, x) -> total + CAST(x AS DOUBLE) * CAST(x AS DOUBLE)))"


def _information(table: TableEntry, base_rate: float | None) -> str:
    if base_rate is None or not 0 < base_rate < 1:
        return "CAST(NULL AS DOUBLE)"
    shows, clicks = _recent(table, RECENT_SHOWS, "shows"), _recent(table, RECENT_CLICKS, "clicks")
    clicks = Sql(f"least({clicks.text}, {shows.text})")  # see information_of
    return information(shows, clicks, as_sql(base_rate), sql_ln).text


def _recent(table: TableEntry, recent: str, ever: str) -> Sql:
    """Return the expression of a count: the decayed one where the table keeps it."""
    return Sql(f"CAST({recent if recent in table.columns else ever} AS DOUBLE)")

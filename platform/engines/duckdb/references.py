"""What the columns that a nest of SELECTs names are in the files that it reads, and what its filters say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from sqlglot import exp

from ...spark_types import type_words

if TYPE_CHECKING:
    import pyarrow.compute as pc

Own = TypeVar("Own", str, "str | None")
"""The stored column that a column is."""


def references(select: exp.Expr, stored: Sequence[str]) -> dict[str, str] | None:
    """Return result column -> stored column of a nest of SELECTs that does nothing else; otherwise None.

    Args:
        select: SELECTs FROM one relation each, the innermost FROM one with the stored columns.
    """
    if select.args.get("where"):
        return None
    origin = select.args["from_"].this
    below: dict[str, str] | None = {name: name for name in stored}
    if isinstance(origin, exp.Subquery):
        below = references(origin.this, stored)
    alias = origin.args.get("alias")
    if below is not None and alias is not None and alias.columns:
        below = dict(zip([column.name for column in alias.columns], below.values(), strict=True))
    columns: dict[str, str] = {}
    for item in select.expressions:
        named = None if below is None else item_references(item, below, origin.alias_or_name)
        if named is None or columns.keys() & named.keys():
            return None
        columns |= named
    return columns


def condition_of(select: exp.Expr, stored: pa.Schema) -> pc.Expression | None:
    """Return a condition over the stored columns that every row of a nest of SELECTs fulfils; None where none is known.

    Args:
        select: see references.
    """
    conditions, _ = filters(select, stored)
    if not conditions:
        return None
    from ..conditions import all_of

    return all_of(conditions)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, whether they are stored in a dictionary or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def filters(select: exp.Expr, stored: pa.Schema) -> tuple[list[pc.Expression], dict[str, str | None]]:
    """Return simple conditions of a nest of SELECTs, and result column -> stored column, None where it computes one; no columns
    where they are not known by name.

    Args:
        stored: the columns of the files.
    """
    origin = select.args["from_"].this
    found: list[pc.Expression] = []
    below: dict[str, str | None] = {name: name for name in stored.names}
    if isinstance(origin, exp.Subquery):
        found, below = filters(origin.this, stored)
    alias = origin.args.get("alias")
    if alias is not None and alias.columns:
        names = [column.name for column in alias.columns]
        below = dict(zip(names, below.values(), strict=True)) if len(names) == len(below) else {}
    if (where := select.args.get("where")) is not None:
        from ..conditions import Origin, instants_in  # brings Arrow's functions, which a query without a filter does without

        own = {name.lower(): source for name, source in below.items() if source is not None}
        kinds = {name: type_words(plain_type(stored.field(source).type)) for name, source in own.items()}
        times = instants_in(stored)
        instants = {name: times[source] for name, source in own.items() if source in times}
        found = found + Origin(origin.alias_or_name, own, kinds, instants).necessary(where.this)
    columns: dict[str, str | None] = {}
    for item in select.expressions:
        named = item_references(item, below, origin.alias_or_name)
        if named is None and item.unalias().is_star:
            return found, {}
        columns |= {item.alias_or_name: None} if named is None else named
    return found, columns


def item_references(item: exp.Expr, below: Mapping[str, Own], relation: str) -> dict[str, Own] | None:
    """Return what one item of a SELECT names; None where it computes something."""
    value = item.unalias()
    if isinstance(value, exp.Column) and (value.db or value.table.lower() not in ("", relation.lower())):
        return None
    if value.is_star:
        return star_references(value if isinstance(value, exp.Star) else value.this, below)
    if not isinstance(value, exp.Column):
        return None
    own = next((source for name, source in below.items() if name.lower() == value.name.lower()), None)
    return None if own is None else {item.alias_or_name: own}


def star_references(star: exp.Expr, below: Mapping[str, Own]) -> dict[str, Own] | None:
    """Return the columns of `*` and `* EXCEPT (...)`."""
    if any(value for clause, value in star.args.items() if clause != "except_"):
        return None
    left_out = {column.name.lower() for column in star.args.get("except_") or []}
    return {name: own for name, own in below.items() if name.lower() not in left_out}

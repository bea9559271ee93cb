"""Queries that only name and rename columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


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


def item_references(item: exp.Expr, below: dict[str, str], relation: str) -> dict[str, str] | None:
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


def star_references(star: exp.Expr, below: dict[str, str]) -> dict[str, str] | None:
    """Return the columns of `*` and `* EXCEPT (...)`."""
    if any(value for clause, value in star.args.items() if clause != "except_"):
        return None
    left_out = {column.name.lower() for column in star.args.get("except_") or []}
    return {name: own for name, own in below.items() if name.lower() not in left_out}

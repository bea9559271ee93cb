"""What a version's manifest gives a statement: operators, and the values of clauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import NewerFormatError
from ..options import Value, written
from ..training.clauses import CLAUSES
from ..training.clauses.base import AnyClause
from ..training.clauses.using import Given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...warehouse.manifest import Manifest


def operators(manifest: Manifest) -> tuple[Given, ...]:
    """Return a version's operators as OPERATORS would give them."""
    return tuple(Given(Value(part.name), written(part.options), part.on) for part in manifest.operators)


def values(manifest: Manifest, stream: bool) -> dict[str, object]:
    """Return the values of clauses that CONTINUE takes from its version.

    Args:
        stream: the statement reads one.
    """
    return {
        clause.name: clause.inherits(clause.kept(manifest), stream) for clause in kept(manifest) if clause.inherits is not None
    }


def all_values(manifest: Manifest) -> dict[str, object]:
    """Return the values of clauses that a training has, which goes on."""
    return {clause.name: clause.kept(manifest) for clause in kept(manifest)}


def kept(manifest: Manifest) -> Iterator[AnyClause]:
    """Yield the clauses that a manifest has.

    Raises:
        NewerFormatError: this xpsql does not know one.
    """
    for word in manifest.clauses:
        clause = CLAUSES.find(word)
        if clause is None:
            raise NewerFormatError(
                f"The manifest of {manifest.model} v{manifest.version} has the clause {word}, which this xpsql does not "
                "support. Install a newer xpsql."
            )
        yield clause

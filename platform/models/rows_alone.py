"""Versions whose rows programs learned, through a parameter server: the programs of their tables."""

from __future__ import annotations

from ...algorithms.layers.initial import uniform
from ...warehouse.manifest import Manifest
from .. import parts
from ..errors import ModelError
from ..operators.base import TableSpec
from ..operators.chains import chain
from ..options import written
from ..ps.compiled.table_programs import Programs
from ..training.operator_guard import checked
from ..training.recipe import make_operator


def is_rows_alone(manifest: Manifest) -> bool:
    """Return whether a version has rows and no algorithm; each of its tables has keys of its own."""
    return manifest.algorithm.name == parts.ROWS_ALONE


def programs_alone(manifest: Manifest) -> dict[str, Programs]:
    """Return the programs of the tables of such a version, by name.

    Raises:
        ModelError: its manifest is damaged.
        StatementError: the package of an operator is not installed.
    """
    try:
        declared = manifest.input["parameters"]["tables"]
        return {entry.name: programs_of_table(manifest, entry.name, declared[entry.name]) for entry in manifest.tables}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The manifest of {manifest.model} v{manifest.version} is damaged: {error!r}. Restore it from a backup."
        ) from error


def programs_of_table(manifest: Manifest, name: str, declared: dict[str, object]) -> Programs:
    entry, init, own = manifest.table(name), float(str(declared["init"])), declared["slots"]
    named = own if isinstance(own, list) and own else [name]
    slots = tuple((slot.name, slot.number) for slot in manifest.slots if slot.name in named)
    spec = TableSpec(name, entry.dim, uniform(init, entry.dim) if init else None, slots)
    found = []
    for used in manifest.operators:
        if tuple(used.on) == (name,):
            part = parts.OPERATOR.find(used.name, None)
            found.append(checked(make_operator(part, parts.OPERATOR.options(part, written(used.options)), spec)))
    return Programs(spec, chain(*found), manifest.seed)

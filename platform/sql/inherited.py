"""Settings inherited from a version's manifest, in the form of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..input.transform import Transform
from ..options import Value, written
from ..training.metrics.evaluate import Evaluate
from ..training.metrics.validate import Validate
from . import clauses
from .crosses import terms_of
from .cursor import Cursor
from .release import read_condition

if TYPE_CHECKING:
    from ...warehouse.manifest import Manifest


def operators(manifest: Manifest) -> tuple[clauses.Given, ...]:
    """Return a version's operators as OPERATORS would give them."""
    return tuple(clauses.Given(Value(part.name), written(part.options), part.on) for part in manifest.operators)


def roles(manifest: Manifest) -> dict[str, Any]:
    """Return the roles of a version's columns, its crosses, list, evaluation, validation and gate as fields of a plan."""
    evaluate = Evaluate(**manifest.evaluate) if manifest.evaluate else None
    release = read_condition(Cursor.of(manifest.release)) if manifest.release else None
    columns = {field: getattr(manifest, field) for field in clauses.ROLES.values()}
    validate = Validate(**manifest.validate) if manifest.validate else None
    transform = Transform.of(manifest.transform)
    judged = {"evaluate": evaluate, "validate": validate, "release": release}
    taken = {"items": manifest.items, "positive": manifest.positive}
    return {**columns, **judged, **taken, "transform": transform, "crosses": terms_of(manifest)}

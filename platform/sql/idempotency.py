"""WITH (once = 'name'), an idempotency key: what a line of versions has learned under a name is not learned again.

A line is a version and its ancestors. Its names stand in the newest one's manifest, so that they outlive the
versions that `VERSIONS RETAIN LAST n` drops. A version that failed, was interrupted, or is held and not promoted is in no line
that continues, so a job that is retried after it learns its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import StatementError
from ..training.nothing_learned import unchanged

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog
    from ...warehouse.version import Version

STATUS = "already learned"


def own_name(version: Version) -> str | None:
    """Return the name under which a version learned; None where it has none."""
    name: str | None = version.manifest.settings.get("once")
    return name


def has_learned(version: Version, name: str | None) -> bool:
    """Return whether a version or one of its ancestors learned under a name."""
    return name is not None and name in version.manifest.once


def learner(models: Catalog, newest: Version, name: str) -> Version:
    """Return the version of a line that learned under a name; the newest where that one was dropped."""
    present = {version.number: version for version in models.present(newest.manifest.model)}
    version: Version | None = newest
    while version is not None:
        parent = present.get(version.manifest.parent or 0)
        if own_name(version) == name and not (parent is not None and has_learned(parent, name)):
            return version
        version = parent
    return newest


def answer(version: Version) -> pa.Table:
    """Return the row of a training statement that had nothing to learn."""
    return unchanged(version, STATUS)


def beside(models: Catalog, newest: Version) -> list[Version]:
    """Return the versions that go on from a line, are held, and are in no version of it: what they learned is missing there,
    but for what was learned again under their name."""
    present = {version.number: version for version in models.present(newest.manifest.model)}
    line, at = set[int](), newest.number
    while at:
        line.add(at)
        at = (present[at].manifest.parent or 0) if at in present else 0
    found: list[Version] = []
    for version in present.values():
        manifest = version.manifest
        goes_on = manifest.parent in line or any(manifest.parent == one.number for one in found)
        if manifest.status == "held" and version.number not in line and goes_on and not has_learned(newest, own_name(version)):
            found.append(version)
    return found


def missing(model: str, held: Version, streams: bool) -> str:
    """Return a note of a held version beside the line that goes on.

    Args:
        streams: what is learned from now is a stream.
    """
    manifest, name = held.manifest, own_name(held)
    said = f" of {name!r}" if name is not None else ""
    what = f"Version {held.number} of {model} is held, so the {manifest.learned.examples:,} examples{said} that it learned, "
    what += f"and its {manifest.learned.rows:,} features, are in no version that this one continues"
    if streams and manifest.stream.name is not None:
        return f"{what}: the rows of the stream come again, and are learned."
    once = f" WITH (once = {name!r})" if name is not None else ""
    return (
        f"{what}. Go on from it by CONTINUE MODEL {model} FROM VERSION {held.number}, learn these rows again by "
        f"CONTINUE MODEL {model}{once} and their query, or drop the version."
    )


def parent_to_replace(models: Catalog, newest: Version, name: str) -> Version:
    """Return the version that OR REPLACE continues: the parent of the newest, which learned under the name.

    Raises:
        StatementError: an older version learned it, or the newest continues no existing version.
    """
    model, version = newest.manifest.model, learner(models, newest, name)
    if version.number != newest.number:
        raise StatementError(
            f"Version {version.number} of {model} learned {name!r}, and version {newest.number} continues it: only the "
            f"newest can be replaced. CONTINUE MODEL {model} FROM VERSION {version.manifest.parent or version.number} learns "
            "it and what came after it anew."
        )
    if version.manifest.parent is None:
        raise StatementError(f"Version {version.number} of {model} continues no version: use TRAIN OR REPLACE MODEL.")
    return models.version(model, version.manifest.parent)

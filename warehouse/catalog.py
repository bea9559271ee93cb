"""The models of a warehouse and their versions, as they are found.

    <root>/models/<name>/lock             held while the model is changed
    <root>/models/<name>/model.json       the newest version's number, so that none is used twice
    <root>/models/<name>/promoted.json    the version that ALTER MODEL ... PROMOTE chose, null for the newest; .minisig: signed
    <root>/models/<name>/resident.json    the status of a resident training; stop.json: a request to stop it
    <root>/models/<name>/v<N>/            manifest.json, rows/, dense/, candidates/, trials/, progress.jsonl, segments.jsonl,
                                          lock; staged/, checkpoints/

Every change appears by one atomic step: a folder renamed into or out of its place, or a file replaced. Leftovers of a
killed process have names that begin with a dot, leftovers of a cluster's tasks that outlive their training are versions without
a manifest; both are removed with the next change of the model.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from ..platform.errors import ModelError, NewerFormatError, suggestion
from .folders import (
    COMMITTED,
    UNREADABLE,
    listed,
    name_pattern,
    newest_interrupted,
    read_version,
    served_number,
    version_numbers,
)
from .locks import shared
from .manifest import FILE, Manifest, Status
from .names import folder_name, model_name
from .trainings.resident import Residence
from .version import Version

REMEDIES = {
    "training": "Wait until version {number} has ended.",
    "interrupted": "RESUME MODEL {name} continues version {number}, if it had begun to learn; else train again.",
    "failed": "Train again; SHOW VERSIONS OF MODEL {name} says why version {number} failed.",
    "damaged": "{error} Or choose another version: ALTER MODEL {name} PROMOTE VERSION n serves one, DROP MODEL {name} VERSION "
    "{number} removes this one.",
    "newer format": "{error} ALTER MODEL {name} PROMOTE VERSION n serves another version.",
    "held": "ALTER MODEL {name} PROMOTE VERSION {number} serves the one that was held last.",
}
"""What to do where no version is ready, or the one served cannot be read, by the status of the newest."""
MOVING_SECONDS, POLL_SECONDS = 10.0, 0.01
"""How long readers wait for a version that is about to be moved away."""


class Catalog:
    """The models in the folder `models` of a warehouse. Reading waits for nobody, and needs no writable warehouse."""

    def __init__(self, root: Path) -> None:
        self.warehouse = root
        self.folder = root / "models"

    def names(self, like: str | None = None) -> list[str]:
        """Return the names of all models that have a version, sorted.

        Args:
            like: only names that match it whole, without case: `%` and `*` stand for any text, `_` for any character.
        """
        if not self.folder.exists():
            return []
        folders = [f for f in self.folder.iterdir() if not f.name.startswith(".") and version_numbers(f)]
        matches = name_pattern("%" if like is None else like).fullmatch
        return sorted(name for name in (model_name(f.name) for f in folders) if matches(name))

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of a model's versions, sorted, whether they can be read or not; none where it is absent."""
        return version_numbers(self._folder(name))

    def exists(self, name: str) -> bool:
        """Return whether a model has a version that can be used (`ready` or `held`), or one that cannot be read and may be
        such."""
        return any(v.manifest.status in (*COMMITTED, *UNREADABLE) for v in self.present(name))

    def served(self, name: str) -> int | None:
        """Return the number of the version served; None where none is, or the model is absent."""
        return next((version.number for version in self.present(name) if version.served), None)

    def passed_over(self, name: str, number: int) -> str | None:
        """Return why a version that has become ready is not served, in words; None where it is."""
        served = self.served(name)
        if served == number:
            return None
        return (
            f"Version {number} of model {name} is ready, and not served: version {served} was promoted, and "
            f"CONTINUE continues that one. ALTER MODEL {name} PROMOTE VERSION {number} serves the new one, "
            "PROMOTE LAST later ones too."
        )

    def versions(self, name: str) -> list[Version]:
        """Return the versions of a model, oldest first.

        Raises:
            ModelError: no such model.
        """
        found = self.present(name)
        if not found:
            raise self._unknown(name)
        return found

    def present(self, name: str) -> list[Version]:
        """Return the versions of a model, oldest first; none where it is absent.

        One whose manifest cannot be read has the status `damaged`, `newer format`, or, where its training had not ended,
        `interrupted`, and the reason as its error.
        """
        folder = self._folder(name)
        read = [m for m in (read_version(folder / f"v{n}") for n in version_numbers(folder)) if m is not None]
        first = max((m.version for m in read if m.replaces and m.status == "ready"), default=0)
        kept = [m for m in read if m.version >= first]
        served = served_number(folder, kept)
        return [Version(folder / f"v{m.version}", m, m.version == served) for m in kept]

    def shown(self, name: str) -> list[Version]:
        """Return what `present` does; where a model's files cannot be read, its newest version as damaged, with the reason."""
        try:
            return self.present(name)
        except (ModelError, OSError) as error:
            number = max(self.numbers(name), default=0)
            status: Status = "newer format" if isinstance(error, NewerFormatError) else "damaged"
            return [Version(self._folder(name) / f"v{number}", Manifest(name, number, status, error=str(error)), False)]

    def find(self, name: str, number: int | None = None) -> Version:
        """Return a version of any status: the one of that number, or the one served, or else the newest.

        Raises:
            ModelError: no such model or version.
        """
        found = self.versions(name)
        for version in found:
            if version.number == number or (number is None and version.served):
                return version
        if number is None:
            return found[-1]
        raise ModelError(f"Model {name} has no version {number}. Versions: {listed(found)}.", name)

    def version(self, name: str, number: int | None = None) -> Version:
        """Return a version that can be used: the one of that number, or the one served.

        Raises:
            ModelError: no such model or version, or one whose training has not ended well.
        """
        version = self.find(name, number)
        manifest = version.manifest
        if number is None and (not version.served or manifest.status in UNREADABLE):
            remedy = REMEDIES[manifest.status].format(name=name, number=version.number, error=manifest.error)
            others = listed(self.versions(name))
            why = "cannot read the version that is served" if version.served else "has no version that is ready"
            raise ModelError(f"Model {name} {why}. Versions: {others}. {remedy}", name)
        if manifest.status not in COMMITTED:
            why = f": {manifest.error.rstrip('.')}." if manifest.error else "."
            others = listed(self.versions(name))
            raise ModelError(f"Version {number} of model {name} is {manifest.status}, not ready{why} Versions: {others}.", name)
        return version

    def residence(self, name: str) -> Residence:
        """Return the files in which a resident training of a model publishes its status."""
        return Residence(self._folder(name))

    @contextlib.contextmanager
    def reading(self, name: str, number: int | None = None) -> Iterator[Version]:
        """Yield a version as `version` does; its files stay until the block ends, even if it is replaced meanwhile."""
        deadline = time.monotonic() + MOVING_SECONDS
        while True:
            version = self.version(name, number)
            with shared(version.folder / FILE) as stays:
                if stays or time.monotonic() > deadline:
                    yield version
                    return
            time.sleep(POLL_SECONDS)

    def interrupted(self, name: str) -> Version:
        """Return the newest version whose training was interrupted and can be resumed.

        Raises:
            ModelError: no such model, or none of its versions was interrupted after it had begun to learn.
        """
        found = self.versions(name)
        if (version := newest_interrupted(found)) is not None:
            return version
        raise ModelError(
            f"Model {name} has no training to resume: versions {listed(found)}. Only one that was interrupted after it had "
            "begun to learn, and before another TRAIN or CONTINUE of the model, can be resumed.",
            name,
        )

    def _folder(self, name: str) -> Path:
        return self.folder / folder_name(name)

    def _unknown(self, name: str) -> ModelError:
        return ModelError(f"There is no model {name}.{suggestion(name, self.names())}", name)

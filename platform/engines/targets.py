"""Target folders that statements write or replace, local or in an object store."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...warehouse.durable import clear, remove, storing, sync, sync_tree
from ...warehouse.outside import why_not
from ...warehouse.scratch import sweep
from ..errors import ModelError, Position, StatementError, XpsqlError
from ..local import URI, local_path
from ..objects import below, is_object, read, upload


@dataclass(frozen=True)
class Target:
    """A folder to write.

    Attributes:
        place: an absolute path, or a URI of an object store.
    """

    place: str

    @classmethod
    def of(cls, text: str, what: str, position: Position | None) -> Target:
        """Return the folder that a text names.

        Raises:
            StatementError: no path, a URI of another kind, or a path in a warehouse.
        """
        if not text.strip():
            raise StatementError(f"{what} is a folder, got an empty path. Name the folder.", position)
        return cls(text.rstrip("/") if is_object(text) else str(free_path(text, what, position)))

    def __str__(self) -> str:
        return self.place

    def below(self, name: str) -> str:
        """Return the path or URI of a file in it."""
        return f"{self.place}/{name}"

    def storing(self, draft: Path) -> AbstractContextManager[None]:
        """Turn errors of writing a draft of `replacing` into a ModelError that names the folder that it is to be."""
        return storing(draft if is_object(self.place) else Path(self.place), "Check the disk and the folder above it")

    def names(self) -> set[str] | None:
        """Return what is in it, {""} where it is a file, or None where there is nothing.

        Raises:
            ModelError: the store does not answer.
        """
        if not is_object(self.place):
            folder = Path(self.place)
            return {path.name for path in folder.iterdir()} if folder.is_dir() else {""} if folder.exists() else None
        try:
            return {file.removeprefix(self.place).strip("/").partition("/")[0] for file in below(self.place)} or None
        except OSError as error:
            raise ModelError(f"{self.place} cannot be listed: {error}.") from error

    def read(self, name: str) -> str:
        """Return the text of a file in it.

        Raises:
            OSError: it cannot be read.
        """
        return read(self.below(name)).decode()

    @contextmanager
    def replacing(self, last: str = "") -> Iterator[Path]:
        """Yield an empty local folder, whose files are moved here once the block has ended without an error.

        A local folder appears whole, in one step. A store has no such step: files are written one by one, the file named `last`
        after all others, and stale files are then removed. What a killed process left beside a local folder is removed after a
        week.

        Raises:
            ModelError: it cannot be written.
        """
        if is_object(self.place):
            with tempfile.TemporaryDirectory(prefix="xpsql-") as made:
                yield Path(made)
                upload(Path(made), self.place, last)
            return
        folder = Path(self.place)
        draft = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
        try:
            with self.storing(draft):
                draft.mkdir(parents=True)
                sweep(left_beside(folder))
            yield draft
            with self.storing(draft):
                sync_tree(draft)
                _replace(folder, draft)
        except BaseException as error:
            _clear_draft(draft, error)
            raise


def free_path(text: str, what: str, position: Position | None) -> Path:
    """Return the absolute path that a path or file:// URL names, to be written.

    Args:
        what: names it in the message: "The page of -o".

    Raises:
        StatementError: a URI of another kind, or a path in a warehouse.
    """
    path = local_path(text, what, position)
    if (why := why_not(path, what)) is not None:
        raise StatementError(why, position)
    return path


def check_place(place: str, what: str, position: Position | None) -> None:
    """Refuse a path in a warehouse, where a URI may be of any kind.

    Raises:
        StatementError: it lies in one.
    """
    if (scheme := URI.match(place)) is None or scheme[1].lower() == "file":
        free_path(place, what, position)


def left_beside(folder: Path) -> list[Path]:
    """Return the drafts and replaced folders that were left beside a folder."""
    name = re.compile(rf"\.{re.escape(folder.name)}-[0-9a-f]{{32}}(-old)?")
    return [path for path in folder.parent.iterdir() if name.fullmatch(path.name)]


def _replace(folder: Path, draft: Path) -> None:
    """Put a whole draft in the place of a folder that may exist."""
    old = draft.with_name(f"{draft.name}-old")
    try:
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    sync(folder.parent)
    clear(old)


def _clear_draft(draft: Path, error: BaseException) -> None:
    try:
        remove(draft)
    except XpsqlError as second:
        error.add_note(f"Its unfinished files are left: {second}")

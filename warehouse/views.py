"""Views of the warehouse: Spark SQL by name, shared with other processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..platform.errors import ModelError, StatementError
from .durable import make_folder, replace_text, storing
from .names import folder_name, model_name

FORMAT = 1


@dataclass(frozen=True)
class View:
    """A query with a name, and names for its columns where the view gives them."""

    query: str
    columns: tuple[str, ...] = ()


class Views:
    """The persistent views of a warehouse: a file each, replaced in one step."""

    def __init__(self, warehouse: Path) -> None:
        self._root = warehouse / "views"

    def names(self) -> list[str]:
        """Return the names of all views, sorted."""
        return sorted(model_name(path.stem) for path in self._root.glob("*.json") if not path.name.startswith("."))

    def get(self, name: str) -> View | None:
        """Return a view, or None where there is none of that name.

        Raises:
            ModelError: its file is damaged, or of a newer xpsql.
        """
        path = self._path(name)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] > FORMAT:
                raise ModelError(f"View {name} was written by a newer xpsql (format {values['format']}). Upgrade xpsql.")
            return View(values["query"], tuple(values["columns"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"The file {path} of view {name} cannot be read: {error}. Create the view again.") from error

    def put(self, name: str, view: View) -> None:
        """Write a view, replacing one of its name."""
        with storing(self._root):
            make_folder(self._root)
        replace_text(self._path(name), json.dumps({"format": FORMAT, "query": view.query, "columns": view.columns}, indent=1))

    def drop(self, name: str) -> None:
        """Remove a view; a missing one is fine."""
        path = self._path(name)
        with storing(path):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        try:
            return self._root / f"{folder_name(name)}.json"
        except ModelError as error:
            raise StatementError(f"The name {name!r} is empty or too long for a view. Choose another one.") from error

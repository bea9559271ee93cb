"""The journal of a search: a line for each trial that is over, so that a search which was killed goes on with them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....warehouse.durable import clear, make_folder, replace_text, storing, sync
from ....warehouse.names import folder_name
from ....warehouse.scratch import sweep

if TYPE_CHECKING:
    from ....warehouse.models import Models

FOLDER, FILE = ".auto", "trials.jsonl"


class TrialJournal:
    """The trials of a search of a model.

    Args:
        folder: its own.
        statement: of the search.
        goes_on: it takes over the trials of a search by the same statement.

    Attributes:
        done: the trials that are over, by what was tried.
    """

    def __init__(self, folder: Path, statement: str, goes_on: bool) -> None:
        self.folder = folder
        with storing(folder):
            make_folder(folder.parent)
            sweep(other for other in folder.parent.iterdir() if other != folder)
            if not goes_on or statement_of(folder) != statement:
                clear(folder)
            make_folder(folder)
        lines = read(folder)
        self.done: dict[str, Mapping[str, Any]] = {line["key"]: line for line in lines[1:]}
        whole = [json.dumps(line) for line in lines] or [json.dumps({"statement": statement})]
        replace_text(folder / FILE, "\n".join(whole) + "\n")  # without a line that a kill cut

    @property
    def seconds(self) -> float:
        """How long the search had taken when its last trial was over."""
        return max((float(line["elapsed"]) for line in self.done.values()), default=0.0)

    def rows(self, key: str) -> Path:
        """Return the file of a trial's predictions of rows held out."""
        known = self.done.get(key)
        return self.folder / (f"{len(self.done)}.npz" if known is None else str(known["file"]))

    def add(self, key: str, line: Mapping[str, Any], elapsed: float) -> None:
        """Keep a trial that is over; it is on the disk when this returns."""
        path = self.rows(key)
        with storing(path):
            if path.exists():
                sync(path)
        self.done[key] = {"key": key, "file": path.name, "elapsed": elapsed, **line}
        self._append(self.done[key])

    def close(self) -> None:
        """Remove it: the search is over."""
        clear(self.folder)

    def _append(self, line: Mapping[str, Any]) -> None:
        path = self.folder / FILE
        with storing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def journal_folder(models: Models, model: str) -> Path:
    """Return where the journal of a model's search is."""
    return models.warehouse / FOLDER / folder_name(model)


def statement_of(folder: Path) -> str | None:
    """Return the statement of the search that a folder keeps; None where there is none."""
    lines = read(folder)
    return str(lines[0]["statement"]) if lines else None


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal; one that a kill cut is left out."""
    path = folder / FILE
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found

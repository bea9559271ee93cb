"""A version of a model from the rows of a service: commit."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...warehouse.durable import remove, storing
from ...warehouse.entries import PartEntry, SizesEntry, SlotEntry
from ...warehouse.manifest import Manifest
from ...warehouse.models import Models
from ..errors import StatementError, no_number
from ..parts import ROWS_ALONE
from .checkpointed import check_files
from .declared import DeclaredTables
from .held import Answer, Ask, summed, table_entry

FILES = "program"
"""The folder of a version where files of the program are."""


def commit(
    models: Models,
    model: str,
    service: str,
    declared: DeclaredTables,
    num_shards: int,
    ask: Ask,
    files: Mapping[str, Path],
    examples: int,
    figures: Mapping[str, float],
) -> int:
    """Make a version of the rows of a service, and return its number; it continues the one that is served.

    Args:
        service: its name, for the version's statement.
        files: kept with the version, by name.
        examples: learned from since the last version.
        figures: metrics of the version, such as auc.

    Raises:
        ModelError: the model learns otherwise, or another process changes it.
        StatementError: a file, a number of examples or a figure that cannot be kept.
    """
    check_files(files)
    if examples < 0 or any(not math.isfinite(value) for value in figures.values()):
        raise StatementError("commit takes examples of at least 0, and figures that are numbers.")
    begun = manifest_of(models, model, service, declared, num_shards)
    with models.begin(model, begun) as draft:
        answers = ask("save", {"folder": str(draft.folder)})
        if len(declared.tables) > 1:  # those of several tables would lie in one folder; checkpoints keep them
            remove(draft.candidates)
            remove(draft.trials)
        if files:
            with storing(draft.folder):
                (draft.folder / FILES).mkdir(parents=True, exist_ok=True)
                for name, path in files.items():
                    shutil.copyfile(path, draft.folder / FILES / name)
        draft.commit(ended(draft.manifest, answers, examples, figures))
        return draft.number


def manifest_of(models: Models, model: str, service: str, declared: DeclaredTables, num_shards: int) -> Manifest:
    """Return what the manifest of a version says before its rows are written."""
    there = models.present(model)
    parent = models.version(model) if there else None
    if parent is not None:
        check_same(parent.manifest, model, declared)
    operators = tuple(PartEntry(use.name, dict(use.given), (name,)) for name in declared.tables for use in declared.uses(name))
    slots = tuple(
        SlotEntry(slot, kind="categorical", type="string", number=number) for slot, number in declared.numbers.items()
    )
    return Manifest(
        statement=f"-- rows of the parameter server {service}",
        algorithm=PartEntry(ROWS_ALONE, {}),
        operators=operators,
        settings={"seed": declared.seed},
        sizes=SizesEntry(shards=num_shards),
        slots=slots,
        tables=tuple(table_entry(declared, name) for name in declared.tables),
        statistics={"now": 0, "scaled": [], "scaler": {"count": [], "mean": [], "squares": []}},
        input={"parameters": declared.as_json()},
        parent=None if parent is None else parent.number,
    )


def check_same(manifest: Manifest, model: str, declared: DeclaredTables) -> None:
    """Refuse to continue a model of other tables.

    Raises:
        StatementError: says what differs.
    """
    own = {table: table_entry(declared, table) for table in declared.tables}
    if manifest.algorithm.name != ROWS_ALONE:
        raise StatementError(
            f"Model {model} was made by {manifest.algorithm.name}, and a commit would give it rows of other programs. Commit "
            "under another name."
        )
    before = {table.name: (table.dim, dict(table.columns)) for table in manifest.tables}
    after = {name: (entry.dim, dict(entry.columns)) for name, entry in own.items()}
    numbers = {slot.name: slot.number for slot in manifest.slots}
    if before != after or numbers != declared.numbers:
        raise StatementError(
            f"Model {model} has the tables {', '.join(before)} with the slots {', '.join(numbers)}, and this service has "
            f"{', '.join(after)} with {', '.join(declared.numbers)}, or rows of other columns. Commit under another name."
        )


def ended(manifest: Manifest, answers: list[Answer], examples: int, figures: Mapping[str, float]) -> Manifest:
    """Return the manifest of a version whose rows are written.

    Raises:
        NumberError: a weight is no number.
    """
    rows = summed([one["rows"] for one in answers])
    weights: dict[str, Any] = {
        "min_weight": min(one["weights"][0] for one in answers),
        "max_weight": max(one["weights"][1] for one in answers),
    }
    if not all(map(math.isfinite, weights.values())):
        raise no_number("A weight is infinite")
    seen, positives = (sum(one["seen"][at] for one in answers) for at in (0, 1))
    statistics = {**manifest.statistics, "now": max(one["now"] for one in answers)}
    made = dataclasses.replace(manifest, metrics={**weights, **figures}, statistics=statistics)
    first = int(rows[manifest.tables[0].name])
    return made.having_learned(examples=examples, rows=first, base_rate=positives / seen if seen else None)

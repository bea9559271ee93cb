"""The memory that shards need on an engine's tasks."""

from __future__ import annotations

from ...engines.tasks import Tasks
from ...errors import StatementError
from ..estimates import estimated_bytes
from ..prepared import Prepared


def check_memory(tasks: Tasks, prepared: Prepared) -> None:
    """Refuse shards that an engine's tasks have no memory for.

    Raises:
        StatementError: says what is needed, what there is, and the setting to raise.
    """
    granted = tasks.memory_bytes()
    if granted is None or not prepared.places.shards:
        return
    features = prepared.features()
    needed = estimated_bytes(prepared.recipe, features) // prepared.places.shards
    if needed > granted:
        raise StatementError(
            f"A shard needs about {needed >> 20} MiB for its rows; {tasks.words.engine} "
            f"{tasks.words.memory.format(f'{granted >> 20} MiB')}. {tasks.words.more_memory}, or use more shards than "
            f"{prepared.places.shards}."
        )

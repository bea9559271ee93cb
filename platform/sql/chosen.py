"""A training's statement with every choice written out: what the user, a default or a rule decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import parts
from ..errors import StatementError
from ..models.options import literal
from ..options import Value, written_name
from ..training.clauses import CLAUSES
from ..training.clauses.settings import Settings
from ..training.clauses.using import Given

if TYPE_CHECKING:
    from ...warehouse.entries import OptionEntry
    from ...warehouse.manifest import Manifest
    from .clauses import Clauses


def written_out(manifest: Manifest, head: str, given: Clauses, query: str, parses: Callable[[str], bool]) -> str:
    """Return the statement of a version with all options of USING and WITH.

    Args:
        head: what stands before the clauses.
        given: the clauses of the statement as it was written.
        query: after AS.
        parses: whether a text is a statement; one with an option that has no effect is none.

    Raises:
        StatementError: the version is older than what keeps its choices.
    """
    if not manifest.chosen:
        what = f"Version {manifest.version} of {manifest.model} does not know what was chosen for it"
        raise StatementError(f"{what}: an older xpsql trained it. ML.OPTIONS shows the options that it has.")
    using: Given = given["USING"].value
    part = parts.ALGORITHM.find(using.name.value, None)
    own = [one for one in manifest.chosen if one.clause == "USING" and "OPERATORS" not in given]
    settings = given["WITH"].value if "WITH" in given else {}
    lists = {"USING": texts(using.options), "WITH": texts(settings)}
    kept = {word: one.position.text for word, one in given.items() if one.position is not None}

    def statement() -> str:
        found = kept | {"USING": f"USING {using.name.value}{listed(lists['USING'])}", "WITH": f"WITH{listed(lists['WITH'])}"}
        lines = [f"  {found[word]}" for word in CLAUSES.names if word in found]
        return "\n".join([head, *(line for line in lines if line.strip() != "WITH"), f"AS {query}"])

    of_settings = [one for one in manifest.chosen if one.clause == "WITH"]
    for word, chosen in (
        ("USING", others(using.options, own, part.options)),
        ("WITH", others(settings, of_settings, Settings)),
    ):
        for one in chosen:
            lists[word].append(f"{one.name} = {literal(one.value)}")
            if one.by == "default" and not parses(statement()):
                lists[word].pop()
    return statement()


def texts(given: Mapping[str, Value]) -> list[str]:
    """Return options as they were written."""
    return [value.position.text for value in given.values() if value.position is not None]


def others(given: Mapping[str, Value], chosen: Sequence[OptionEntry], options: type[Any]) -> Iterator[OptionEntry]:
    """Yield the options with a value that the user did not give; a default that depends on something else is left out."""
    said = {name.lower() for name in given}
    depends = {
        written_name(field.name)
        for field in dataclasses.fields(options)
        if field.metadata["limits"].needs or field.metadata["limits"].facts
    }
    for one in chosen:
        if one.name not in said and one.value not in (None, (), []) and not (one.by == "default" and one.name in depends):
            yield one


def listed(options: Sequence[str]) -> str:
    """Return options in parentheses; nothing where there are none."""
    return f" ({', '.join(options)})" if options else ""

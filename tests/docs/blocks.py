"""The fenced blocks of a Markdown file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from click import Context

from xpsql.platform.cli import main

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block: its language, what `name=value` behind the language says, and its text."""

    language: str
    name: str
    value: str
    text: str


def blocks(document: str) -> list[Block]:
    """Return the blocks of a document of the repository that name a language."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [Block(language, name, value, body) for language, name, value, body in FENCE.findall(text)]


def options_of(command: str) -> set[str]:
    """Return the options of a command of `xpsql`."""
    found = main.get_command(Context(main), command)
    assert found is not None
    return {name for parameter in found.params for name in parameter.opts}

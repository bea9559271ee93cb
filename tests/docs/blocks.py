"""The fenced blocks of a Markdown file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

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

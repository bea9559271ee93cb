"""get_json_object: the part of a JSON text that a path names.

Source: Spark's org.apache.spark.sql.catalyst.expressions.json.GetJsonObjectEvaluator and JsonPathParser.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from .base import Computed
from .json_values import NumberText, written

STEP = re.compile(r"\.\s*([^.\[]+)|\['([^'?]+)'\]|\[([0-9]+|\*)\]")
ANY = "*"
RAW, QUOTED, FLAT = "raw", "quoted", "flat"
Steps = tuple[str | int | None, ...]  # a field's name, an element's place, None for all elements


@functools.lru_cache(maxsize=256)
def steps_of(path: str) -> Steps | None:
    """Return the steps of a path; None where it is none, or asks for all fields."""
    if not path.startswith("$"):
        return None
    steps: list[str | int | None] = []
    at = 1
    while at < len(path):
        found = STEP.match(path, at)
        if found is None or found[1] == ANY:
            return None
        at = found.end()
        steps.append(found[1] or found[2] or (None if found[3] == ANY else int(found[3])))
    return tuple(steps)


def found(value: Any, steps: Steps, style: str) -> list[str]:
    """Return the texts of what the steps lead to.

    Args:
        style: how texts are written: as they are, in quotes as inside an array, or so with the elements of arrays one by one.
    """
    if not steps:
        if style == FLAT and isinstance(value, list):
            return [text for one in value for text in found(one, steps, style)]
        return [value if style == RAW and isinstance(value, str) else written(value)]
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        inner = value.get(step) if isinstance(value, dict) else None
        return [] if inner is None else found(inner, rest, style)
    if not isinstance(value, list):
        return []
    if isinstance(step, int):
        next_style = QUOTED if rest[:1] == (None,) else style
        return found(value[step], rest, next_style) if step < len(value) else []
    if rest[:1] == (None,):
        return together([text for one in value for text in found(one, rest[1:], FLAT)])
    texts = [text for one in value for text in found(one, rest, QUOTED if style == RAW else style)]
    return texts if style != QUOTED and len(texts) == 1 else together(texts)


def together(texts: list[str]) -> list[str]:
    """Return texts as one of an array; nothing of none."""
    return [f"[{','.join(texts)}]"] if texts else []


def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with the first value of each name."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        made.setdefault(name, value)
    return made


def part(text: str | None, path: str | None) -> str | None:
    """Return what a path names in a JSON text; None where it names nothing."""
    steps = None if text is None or path is None else steps_of(path)
    if steps is None or text is None:
        return None
    try:
        value = json.loads(text, parse_float=NumberText, object_pairs_hook=first)
    except (ValueError, RecursionError):
        return None
    texts = [] if value is None else found(value, steps, RAW)
    return texts[0] if texts else None


def parts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return what paths name in JSON texts: (text, path), string[n]."""
    texts, paths = columns
    return pa.array(list(map(part, texts.to_pylist(), paths.to_pylist())), pa.string())


json_part = Computed("xpsql_json_part", parts, pa.string())

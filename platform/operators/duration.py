"""Durations as options write them: '7 days', '90 minutes'."""

from __future__ import annotations

import re

from ..errors import OptionError

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def duration_seconds(text: str, owner: str) -> float:
    """Return the seconds of a duration: a positive number and a unit.

    Args:
        owner: what the duration belongs to, for messages: "option half_life of operator decay".

    Raises:
        OptionError: another form, another unit, or not positive.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", text.lower())
    if match is None or match[2] not in SECONDS or float(match[1]) == 0:
        units = ", ".join(f"{unit}s" for unit in SECONDS)
        raise OptionError(f"{owner} expects a positive number and a unit ({units}), such as '7 days', got {text!r}.")
    return float(match[1]) * SECONDS[match[2]]

"""Amounts with a unit, as options write them: '7 days', '90 minutes', '200 examples'."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import OptionError, Subject

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def duration_seconds(text: str, option: Subject) -> float:
    """Return the seconds of a duration: a positive number and a unit of time.

    Args:
        option: whose value it is.

    Raises:
        OptionError: another form, another unit, or not positive.
    """
    number, unit = amount(text, SECONDS, option)
    return number * SECONDS[unit]


def amount(text: str, units: Mapping[str, float], option: Subject) -> tuple[float, str]:
    """Return a positive number and its unit, one of `units` in the singular.

    Raises:
        OptionError: another form, another unit, or not positive.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", text.lower())
    if match is None or match[2] not in units or float(match[1]) == 0:
        listed = ", ".join(f"{unit}s" for unit in units)
        message = f"{option} expects a positive number and a unit ({listed}), such as '7 days', got {text!r}."
        raise OptionError(message, subject=option)
    return float(match[1]), match[2]

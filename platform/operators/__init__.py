"""Operators on updates, one file each."""

from __future__ import annotations

from typing import Any

from ..options import Part
from .base import Operator
from .decay import DECAY
from .ftrl import FTRL
from .gradient_average import GRADIENT_AVERAGE
from .safety import SAFETY
from .staleness_discount import STALENESS_DISCOUNT

OPERATORS: tuple[Part[Any, Operator], ...] = (GRADIENT_AVERAGE, STALENESS_DISCOUNT, SAFETY, DECAY, FTRL)

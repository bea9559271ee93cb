"""Algorithms, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import Any

from ..platform.options import Part
from .base import Algorithm
from .ffm import FFM
from .fm import FM
from .xftrl import XFTRL
from .xnn import XNN
from .xsvd import XSVD

ALGORITHMS: tuple[Part[Any, Algorithm], ...] = (XFTRL, FM, FFM, XNN, XSVD)

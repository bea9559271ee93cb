"""The table functions ML.*, one file each. Every file makes one `TableFunction`; FUNCTIONS lists them all."""

from __future__ import annotations

from ..base import TableFunction
from .nearest import NEAREST
from .predict import PREDICT

FUNCTIONS: tuple[TableFunction, ...] = (PREDICT, NEAREST)

"""New rows for each pass over the data."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part
from .base import Operator, TableSpec


@dataclass(frozen=True)
class RenewOptions:
    """Options of renew: none."""


def renew(options: RenewOptions, table: TableSpec) -> Operator:
    """Begin each pass with the rows that the training began with, while layers and other tables go on.

    In a second pass, layers meet vectors that know the rows' labels: they learn to trust them, and are wrong about new rows.
    `OPERATORS (renew ON vectors)` keeps them from it. Weights and the optimizer's memory start again, the first time new ones,
    in CONTINUE those of the version before; how often a feature was seen, shown and clicked is kept. The version has what the
    last pass made. It needs WITH (passes = 2) or more.

    Source: Fan et al., "Multi-Epoch Learning with Data Augmentation for Deep Click-Through Rate Prediction", arXiv 2407.01607,
    2024 (MEDA).
    """
    return Operator({}, name="renew", renews=True, later=("renew",))


RENEW = Part("renew", RenewOptions, renew)

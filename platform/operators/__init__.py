"""Operators on updates, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import Any

from ..options import Part
from .adagrad import ADAGRAD
from .adam import ADAM
from .adamw import ADAMW
from .admit import ADMIT
from .auto_session import AUTO_SESSION
from .base import Operator
from .decay import DECAY
from .delay_compensation import DELAY_COMPENSATION
from .expire import EXPIRE
from .ftrl import FTRL
from .gradient_average import GRADIENT_AVERAGE
from .lion import LION
from .momentum import MOMENTUM
from .recent import RECENT
from .regularize import REGULARIZE
from .rmsprop import RMSPROP
from .safety import SAFETY
from .sgd import SGD
from .staleness_discount import STALENESS_DISCOUNT

OPERATORS: tuple[Part[Any, Operator], ...] = (
    GRADIENT_AVERAGE,
    STALENESS_DISCOUNT,
    DELAY_COMPENSATION,
    SAFETY,
    REGULARIZE,
    DECAY,
    RECENT,
    ADMIT,
    EXPIRE,
    AUTO_SESSION,
    FTRL,
    SGD,
    MOMENTUM,
    ADAGRAD,
    RMSPROP,
    ADAM,
    ADAMW,
    LION,
)

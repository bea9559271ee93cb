"""Operators on updates, one file each; a new one is a file and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..registry import Registry

if TYPE_CHECKING:
    from ..options import Part
    from .base import Operator

OPERATORS: Registry[Part[Any, Operator]] = Registry(
    __name__,
    {
        "gradient_average": "gradient_average.GRADIENT_AVERAGE",
        "staleness_discount": "staleness_discount.STALENESS_DISCOUNT",
        "delay_compensation": "delay_compensation.DELAY_COMPENSATION",
        "safety": "safety.SAFETY",
        "regularize": "regularize.REGULARIZE",
        "decay": "decay.DECAY",
        "recent": "lifetimes.recent.RECENT",
        "admit": "lifetimes.admit.ADMIT",
        "expire": "lifetimes.expire.EXPIRE",
        "auto_session": "auto_session.AUTO_SESSION",
        "renew": "renew.RENEW",
        "later_passes": "later_passes.LATER_PASSES",
        "ftrl": "ftrl.FTRL",
        "sgd": "sgd.SGD",
        "momentum": "momentum.MOMENTUM",
        "adagrad": "adagrad.ADAGRAD",
        "rmsprop": "rmsprop.RMSPROP",
        "adam": "adam.ADAM",
        "adamw": "adamw.ADAMW",
        "lion": "lion.LION",
    },
)

"""Options under which each operator does something, and operators made with them."""

from __future__ import annotations

from typing import Any

from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.auto_session import AutoSessionOptions
from xpsql.platform.operators.base import Operator
from xpsql.platform.operators.decay import DecayOptions
from xpsql.platform.operators.delay_compensation import DelayCompensationOptions
from xpsql.platform.operators.ftrl import FtrlOptions
from xpsql.platform.operators.gradient_average import GradientAverageOptions
from xpsql.platform.operators.lifetimes.admit import AdmitOptions
from xpsql.platform.operators.lifetimes.expire import ExpireOptions
from xpsql.platform.operators.regularize import RegularizeOptions
from xpsql.platform.operators.safety import SafetyOptions
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions
from xpsql.testing.operators import TABLE

# Limits that drawn values do not hit exactly, so that float32 and the reference agree on what is beyond them.
EXAMPLES: dict[str, Any] = {
    "gradient_average": GradientAverageOptions("sqrt"),
    "staleness_discount": StalenessDiscountOptions("exponential", rate=0.3),
    "delay_compensation": DelayCompensationOptions(0.7),
    "safety": SafetyOptions(max_gradient=1.7317, max_update=0.1093, max_weight=0.2331),
    "regularize": RegularizeOptions("elastic", 0.013, by_frequency=((2, 0.071), (4, 0.037))),
    "decay": DecayOptions(w=0.9, half_life="7 days"),
    "auto_session": AutoSessionOptions("3 examples", "2 hours", "30 days", prior=2.5),
    "admit": AdmitOptions(min_count=5),
    "expire": ExpireOptions(after="30 days"),
    "ftrl": FtrlOptions(alpha=0.2, beta=0.7, l1=0.3, l2=0.4),
}

PARTS = {part.name: part for part in OPERATORS}


def make(name: str, options: Any = None) -> Operator:
    """Make an operator on the table of the conformance suite."""
    part = PARTS[name]
    return part.make(options or EXAMPLES.get(name, part.options()), TABLE)


OPTIMIZERS = tuple(name for name in PARTS if make(name).optimizer)
TRANSFORMS = tuple(name for name in PARTS if name not in OPTIMIZERS)

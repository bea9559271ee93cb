"""Discount of gradients that were computed on old weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..dependent import when
from ..options import Part, option
from .base import Context, Operator, Rows, TableSpec


@dataclass(frozen=True)
class StalenessDiscountOptions:
    """Options of staleness_discount."""

    mode: str = option("inverse", "form of the discount", choices=("inverse", "exponential", "threshold", "polynomial"))
    rate: float = option(0.1, "discount per update missed", minimum=0, needs=(when("mode", "inverse", "exponential"),))
    limit: int = option(
        16, "staleness above which a gradient is dropped", minimum=0, maximum=2**31 - 1, needs=(when("mode", "threshold"),)
    )
    power: float = option(0.5, "exponent", minimum=0, needs=(when("mode", "polynomial"),))


def staleness_discount(options: StalenessDiscountOptions, table: TableSpec) -> Operator:
    """Multiply a gradient by a discount that falls with its staleness s.

    s is the number of updates that the row, or the dense parameter, has had since the worker pulled it; no discount at s = 0:

        inverse      1 / (1 + rate s)
        exponential  exp(-rate s)
        threshold    1 where s <= limit, else 0
        polynomial   (1 + s)^-power

    Source: inverse: Zhang et al., "Staleness-aware Async-SGD for Distributed Deep Learning", IJCAI 2016. exponential: Chan
    and Lane, "Distributed Asynchronous Optimization of Convolutional Neural Networks", Interspeech 2014. polynomial: Xie et
    al., "Asynchronous Federated Optimization", 2019, section 5. threshold: bounded staleness, Ho et al., NeurIPS 2013.
    """
    forms: dict[str, Callable[[jax.Array], jax.Array]] = {
        "inverse": lambda s: 1 / (1 + options.rate * s),
        "exponential": lambda s: jnp.exp(-options.rate * s),
        "threshold": lambda s: (s <= options.limit).astype(jnp.float32),
        "polynomial": lambda s: (1 + s) ** -options.power,
    }
    discount = forms[options.mode]

    def before(gradients: jax.Array, rows: Rows, context: Context) -> tuple[jax.Array, Rows]:
        return gradients * discount(context.staleness.astype(jnp.float32))[:, None], rows

    return Operator({}, before, name="staleness_discount", dense=True)


STALENESS_DISCOUNT = Part("staleness_discount", StalenessDiscountOptions, staleness_discount)

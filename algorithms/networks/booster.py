"""Rocket training (knowledge distillation): the served network learns from a large network that is trained beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax

from ...platform.dependent import when
from ...platform.options import option
from ..base import Inputs, Losses, Parameters, Scores, Supervised
from ..layers.parallel import Parallel
from ..layers.stacked import Stacked
from ..losses import Loss, LossOptions
from ..pools import PooledOptions
from .tower import activations_of, check_hidden

LAYERS = (when("hidden"), when("booster"))
FIRST_BOOSTER = 301  # the numbers of the booster's layers, so that their initial values differ from others'


@dataclass(frozen=True, kw_only=True)
class BoosterOptions(PooledOptions, LossOptions):
    """The options of a network that can learn beside a booster; a base of its options."""

    booster: tuple = option(  # type: ignore[type-arg]
        (),
        "units of each hidden layer of a larger network that is trained with this one and not served, such as "
        "(1024, 512, 256); () for none, more for long logs",
    )
    hint: float = option(
        0.3, "weight of the loss that pulls the network's scores to those of its booster", minimum=0, needs=(when("booster"),)
    )


class BoosterTower:
    """Hidden layers over the vectors that the served network has too, and an output for each label.

    Args:
        activation: as of the network; its first one is that of all layers.
        inputs, outputs: widths.
        dropout, norm: of the hidden layers, as of the network.
        algorithm: for messages.

    Attributes:
        specs: the dense parameters, which are for training alone.

    Raises:
        OptionError: a hidden layer without a number of units.
    """

    def __init__(
        self,
        options: BoosterOptions,
        activation: tuple[str, ...],
        inputs: int,
        outputs: int,
        dropout: float,
        norm: bool,
        algorithm: str,
    ) -> None:
        check_hidden(options.booster, "booster", algorithm)
        activations = activations_of(activation[:1], options.booster, algorithm)
        self._network = Parallel("booster", FIRST_BOOSTER, 1, inputs, options.booster, activations, outputs, dropout, norm)
        self.specs = tuple(spec._replace(train_only=True) for spec in self._network.specs()) if options.booster else ()
        self._hint = options.hint

    def goal(self, scores: Scores, boosted: Callable[[Parameters, Inputs, BoosterTower], jax.Array], loss: Loss) -> Supervised:
        """Return what a network learns with its booster, if there is one.

        loss(booster) + loss(network) + hint (stop_gradient(booster) - network)^2, on scores, for each label

        Args:
            boosted: the scores of the booster, float32[batch, num_labels].

        Source: Zhou et al., "Rocket Launching: A Universal and Efficient Framework for Training Well-performing Light Net",
        AAAI 2018, equation 3; the hint reaches the network alone, as in their gradient block.
        """
        return Supervised(scores, loss, self._objective(scores, boosted, loss) if self.specs else None, "several")

    def _objective(
        self, scores: Scores, boosted: Callable[[Parameters, Inputs, BoosterTower], jax.Array], loss: Loss
    ) -> Losses:
        def objective(parameters: Parameters, inputs: Inputs) -> tuple[jax.Array, jax.Array]:
            own, theirs = scores(parameters, inputs), boosted(parameters, inputs, self)
            drawn = self._hint * (jax.lax.stop_gradient(theirs) - own) ** 2
            if loss.multiclass:
                drawn = drawn.sum(axis=1, keepdims=True)
            return loss.value(own, inputs.label) + loss.value(theirs, inputs.label) + drawn, own

        return objective

    def apply(self, parameters: Parameters, x: jax.Array | Stacked, random: jax.Array | None) -> jax.Array:
        """Return float32[batch, outputs] for x float32[batch, inputs]; `random` as in Inputs."""
        return self._network.apply(parameters, x, random)[:, 0]

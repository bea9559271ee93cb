"""Late labels (delayed feedback): an example is learned as 0 when it is shown, and once more as 1 when it is clicked."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from ..platform.errors import OptionError, Subject
from .base import Algorithm
from .losses import Loss, log_odds, logloss


def fake_negative_weighted(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the log loss weighed so that its mean over such examples is least where predictions are the click rate of what was
    shown: 1 + p where the label is 1, (1 - p) (1 + p) where it is 0, as of those some will be clicked.

    Source: Ktena et al., "Addressing Delayed Feedback for Continuous Training with Neural Networks in CTR prediction", RecSys
    2019, equation 10; no gradient flows into the weights.
    """
    p = jax.lax.stop_gradient(jax.nn.sigmoid(scores))
    return (1 + p) * jnp.where(labels > 0, 1, 1 - p) * logloss(scores, labels)


LATE = Loss(fake_negative_weighted, jax.nn.sigmoid, classifier=True, baseline=log_odds, late=True)


def with_late_labels(algorithm: Algorithm, name: str) -> Algorithm:
    """Return an algorithm that learns from labels which come late.

    Raises:
        OptionError: its loss is another one than the log loss of scores.
    """
    learns, loss = algorithm.learns, algorithm.loss
    plain = loss is not None and loss.classifier and loss.link is jax.nn.sigmoid and loss.baseline is log_odds
    if not plain or not learns.serves or learns.goal.objective is not None or learns.augment:
        raise OptionError(
            f"LABEL ... LATE weighs the log loss of one label, and {name} learns otherwise here. Take xftrl, fm, ffm, "
            "logistic_regression or a network such as xnn, with loss = 'logloss' and without positive_weight.",
            subject=Subject("LABEL"),
        )
    return replace(algorithm, learns=learns.with_loss(LATE))


def shown(events: float, rate: float, late: bool) -> float:
    """Return how many of the events that were learned from are examples that were shown, of which `rate` were clicked."""
    return events / (1 + rate) if late else events


def click_rate(mean: float) -> float:
    """Return the share of shown examples that were clicked, below 1, from the mean label of the events."""
    return min(mean / (1 - mean), 0.99) if mean < 1 else 0.99

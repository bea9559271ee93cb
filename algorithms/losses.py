"""Loss functions, chosen by name: each with the link that makes its scores predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..platform.dependent import when
from ..platform.errors import OptionError, Subject
from ..platform.options import option

LIMIT = 30.0  # of a focal score: float32's sigmoid is 0 or 1 beyond
LIMIT_OF_LOGARITHMS = 20.0  # of the score of a count


class Loss(NamedTuple):
    """What an algorithm minimises.

    Attributes:
        value: (scores, labels) -> float32 of the same shape, element by element.
        link: scores -> predictions.
        classifier: labels are 0 or 1, predictions in (0, 1).
        baseline: mean label -> the best score of a model that knows only that; None: 0.
        standardised: labels are any numbers, learned less their mean over their standard deviation, by the statistics of all
            labels so far, as continuous slots are; scores and weights are in that unit, predictions in the labels' own.
        multiclass: the label is one of several classes, by number; scores have a column for each, value is [batch, 1].
        late: an example comes with 0, and once more with 1 where that turns out to be its label.
        counts: labels are numbers of at least 0, and predictions above 0.
        at: predictions are this quantile of the label; None: its mean.
    """

    value: Callable[[jax.Array, jax.Array], jax.Array]
    link: Callable[[jax.Array], jax.Array]
    classifier: bool
    baseline: Callable[[float], float] | None = None
    standardised: bool = False
    multiclass: bool = False
    late: bool = False
    counts: bool = False
    at: float | None = None

    @property
    def expects(self) -> str:
        """The labels that it takes, in words."""
        return "0 or 1" if self.classifier else "a finite number of at least 0" if self.counts else "a finite number"

    def takes(self, labels: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which labels it takes."""
        found: NDArray[np.bool_] = (labels == 0) | (labels == 1) if self.classifier else np.isfinite(labels)
        if self.counts:
            found &= labels >= 0
        return found


def log_odds(mean: float) -> float:
    """Return the score whose sigmoid is the mean of labels, which have the least logloss there.

    Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, section 3.3: models of rare labels begin there.
    """
    return math.log(mean) - math.log1p(-mean)


def logloss(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the negative log likelihood of labels in {0, 1} under sigmoid(scores)."""
    return jnp.logaddexp(0, scores) - labels * scores


def squared(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return half the squared error."""
    return 0.5 * (scores - labels) ** 2


def hinge(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return max(0, 1 - y score), with y = 1 for label 1 and -1 for label 0.

    Source: Cortes and Vapnik, "Support-Vector Networks", Machine Learning 1995.
    """
    return jnp.maximum(0, 1 - (2 * labels - 1) * scores)


def focal(gamma: float, scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return (1 - q)^gamma (-log q), where q is the probability that sigmoid(scores) gives the label.

    Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, equation 4; its alpha is `positive_weight`.
    """
    margin = (2 * labels - 1) * scores
    return jnp.exp(-gamma * jnp.logaddexp(0, margin)) * jnp.logaddexp(0, -margin)


def focal_link(gamma: float, scores: jax.Array) -> jax.Array:
    """Return the probability p whose focal loss is least at these scores; sigmoid(scores) itself is nearer to 1/2.

    Where the expected loss is least, p phi(q) = (1 - p) phi(1 - q), with q = sigmoid(score) and
    phi(q) = (1 - q)^gamma / q - gamma (1 - q)^(gamma - 1) log q. Computed as the sigmoid of log phi(1 - q) - log phi(q).

    Source: Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical Perspective", CVPR
    2021, theorem 11.
    """
    scores = jnp.clip(scores, -LIMIT, LIMIT)

    def log_phi(score: jax.Array) -> jax.Array:
        log_q, log_rest = -jnp.logaddexp(0, -score), -jnp.logaddexp(0, score)
        return (gamma - 1) * log_rest - log_q + jnp.log(jnp.exp(log_rest) - gamma * jnp.exp(log_q) * log_q)

    return jax.nn.sigmoid(log_phi(-scores) - log_phi(scores))


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the negative log likelihood of classes under softmax(scores), float32[batch, 1].

    Args:
        scores: float32[batch, classes].
        labels: float32[batch, 1], the numbers of classes.

    Source: Bridle, "Probabilistic Interpretation of Feedforward Classification Network Outputs", Neurocomputing 1990.
    """
    chosen = jax.nn.one_hot(labels[:, 0].astype(jnp.int32), scores.shape[1])
    return jax.nn.logsumexp(scores, axis=1, keepdims=True) - (scores * chosen).sum(axis=1, keepdims=True)


def quantile(at: float, scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the pinball loss: at times what a label is above the score, or 1 - at times what it is below.

    Source: Koenker and Bassett, "Regression Quantiles", Econometrica 1978.
    """
    above = labels - scores
    return jnp.maximum(at * above, (at - 1) * above)


def poisson(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the negative log likelihood of counts whose mean is exp(scores), without what depends on labels alone; beyond the
    largest score it goes on straight, so that gradients stay finite.

    Source: Nelder and Wedderburn, "Generalized Linear Models", Journal of the Royal Statistical Society A 1972.
    """
    largest = math.exp(LIMIT_OF_LOGARITHMS)
    mean = jnp.exp(jnp.minimum(scores, LIMIT_OF_LOGARITHMS))
    return mean + largest * jnp.maximum(scores - LIMIT_OF_LOGARITHMS, 0) - labels * scores


def identity(scores: jax.Array) -> jax.Array:
    return scores


def exponential(scores: jax.Array) -> jax.Array:
    return jnp.exp(jnp.clip(scores, -LIMIT_OF_LOGARITHMS, LIMIT_OF_LOGARITHMS))


def logarithm(mean: float) -> float:
    """Return the score whose exponential is the mean of counts."""
    return math.log(max(mean, math.exp(-LIMIT_OF_LOGARITHMS)))


LOGLOSS = Loss(logloss, jax.nn.sigmoid, classifier=True, baseline=log_odds)
SQUARED = Loss(squared, identity, classifier=False, standardised=True)
HINGE = Loss(hinge, jax.nn.sigmoid, classifier=True)
POISSON = Loss(poisson, exponential, classifier=False, baseline=logarithm, counts=True)
SOFTMAX = Loss(cross_entropy, jax.nn.softmax, classifier=False, baseline=math.log, multiclass=True)


def make_focal(gamma: float) -> Loss:
    return Loss(partial(focal, gamma), partial(focal_link, gamma), classifier=True, baseline=log_odds)


def make_quantile(at: float) -> Loss:
    return Loss(partial(quantile, at), identity, classifier=False, standardised=True, at=at)


LOSSES: Mapping[str, Callable[[LossOptions], Loss]] = {
    "logloss": lambda options: LOGLOSS,
    "squared": lambda options: SQUARED,
    "hinge": lambda options: HINGE,
    "focal": lambda options: make_focal(options.gamma),
    "quantile": lambda options: make_quantile(options.at),
    "poisson": lambda options: POISSON,
}


def quantile_option() -> float:
    """Declare which quantile `loss = 'quantile'` predicts."""
    at: float = option(
        0.5,
        "the quantile that is predicted: the label is below it in this share of cases; 0.5 is the median",
        minimum=0,
        open_minimum=True,
        maximum=1,
        open_maximum=True,
        needs=(when("loss", "quantile"),),
    )
    return at


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The options of an algorithm whose loss can be chosen; a base of its options."""

    loss: str = option(
        "logloss",
        "what is minimised; squared takes any number as label, learned in standard deviations from their mean; hinge ranks "
        "without probabilities; with focal, predictions are the probabilities that its scores mean; quantile takes any number "
        "and predicts the quantile `at` in place of the mean; poisson takes counts and other numbers of at least 0, and learns "
        "the logarithm of their mean",
        choices=tuple(LOSSES),
    )
    gamma: float = option(
        2.0,
        "how much focal focuses on examples that are predicted badly; raise it if most are easy",
        minimum=0,
        needs=(when("loss", "focal"),),
    )
    at: float = quantile_option()
    positive_weight: float = option(
        1.0,
        "weight of examples whose label is 1, not if labels are other numbers; raise it if missing one costs more",
        minimum=0,
        open_minimum=True,
    )


def loss_of(options: LossOptions, classes: int = 0) -> Loss:
    """Return the loss that options choose; of a label with classes, softmax.

    Raises:
        OptionError: they choose what classes do not have.
    """
    if classes:
        return softmax_of(options.loss, options.positive_weight)
    return with_positive_weight(LOSSES[options.loss](options), options.positive_weight)


def softmax_of(loss: str, positive_weight: float) -> Loss:
    """Return the loss of a label with classes.

    Raises:
        OptionError: the options choose another loss, or weigh a class.
    """
    name = "loss" if loss != "logloss" else "positive_weight"
    if loss != "logloss" or positive_weight != 1:
        subject = Subject("USING", option=name)
        raise OptionError(
            f"{subject} is not for a label with classes, whose loss is softmax. Leave it out"
            f"{'' if name == 'loss' else ', and give examples their weight by the clause WEIGHT'}.",
            subject=subject,
        )
    return SOFTMAX


def with_positive_weight(loss: Loss, positive_weight: float) -> Loss:
    """Return a loss that counts so many times where the label is 1.

    Raises:
        OptionError: the loss takes any number as label.
    """
    check_positive_weight(positive_weight, loss.classifier)
    if positive_weight == 1:
        return loss
    baseline = partial(raised, loss.baseline, positive_weight) if loss.baseline is not None else None
    return loss._replace(value=partial(weighted, loss.value, positive_weight), baseline=baseline)


def check_positive_weight(positive_weight: float, classifier: bool) -> None:
    """Refuse a weight of positive examples where labels are any numbers.

    Raises:
        OptionError: says what to do instead.
    """
    if positive_weight != 1 and not classifier:
        subject = Subject("USING", option="positive_weight")
        raise OptionError(
            f"{subject} is for labels that are 0 or 1, and this loss takes other numbers. Give examples their weight by the "
            "clause WEIGHT.",
            subject=subject,
        )


def raised(baseline: Callable[[float], float], positive_weight: float, mean: float) -> float:
    """Return the log odds that a baseline is where examples count so many times whose label is 1."""
    return baseline(mean) + math.log(positive_weight)


def weighted(
    value: Callable[[jax.Array, jax.Array], jax.Array], positive_weight: float, scores: jax.Array, labels: jax.Array
) -> jax.Array:
    """Return a loss, times a weight where the label is 1."""
    return value(scores, labels) * jnp.where(labels > 0, positive_weight, 1)

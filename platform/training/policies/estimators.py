"""Off-policy estimators: what a policy would have earned on requests that another policy decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Interval, drawn, interval, quotient

Doubles = NDArray[np.float64]


class Decided(NamedTuple):
    """Requests that were decided, float64[requests] each.

    Attributes:
        reward: of the candidate that was shown.
        weight: its probability under the policy that is judged, divided by its propensity under the one that decided.
        expected: its reward by the model.
        under_policy: the reward by the model under the policy that is judged, the mean over candidates.
    """

    reward: Doubles
    weight: Doubles
    expected: Doubles
    under_policy: Doubles


class EstimatorTerms(NamedTuple):
    """An estimator as a quotient of two sums over requests, float64[requests] each."""

    over: Doubles
    under: Doubles


def ips(decided: Decided, clip: float) -> EstimatorTerms:
    """Return inverse propensity scoring.

    Source: Horvitz and Thompson, "A Generalization of Sampling Without Replacement from a Finite Universe", JASA 1952.
    """
    return mean(np.minimum(decided.weight, clip) * decided.reward)


def snips(decided: Decided, clip: float) -> EstimatorTerms:
    """Return it normalised by its weights.

    Source: Swaminathan and Joachims, "The Self-Normalized Estimator for Counterfactual Learning", NIPS 2015.
    """
    weight = np.minimum(decided.weight, clip)
    return EstimatorTerms(weight * decided.reward, weight)


def dr(decided: Decided, clip: float) -> EstimatorTerms:
    """Return the doubly robust estimator: the model's own, corrected where it was wrong of what was shown.

    Source: Dudík, Langford and Li, "Doubly Robust Policy Evaluation and Learning", ICML 2011.
    """
    return corrected(decided, np.minimum(decided.weight, clip))


def switch(decided: Decided, clip: float) -> EstimatorTerms:
    """Return it without the correction where a weight is above `clip`.

    Source: Wang, Agarwal and Dudík, "Optimal and Adaptive Off-policy Evaluation in Contextual Bandits", ICML 2017.
    """
    return corrected(decided, np.where(decided.weight <= clip, decided.weight, 0.0))


def corrected(decided: Decided, weight: Doubles) -> EstimatorTerms:
    return mean(decided.under_policy + weight * (decided.reward - decided.expected))


def mean(terms: Doubles) -> EstimatorTerms:
    return EstimatorTerms(terms, np.ones(len(terms)))


ESTIMATORS: dict[str, Callable[[Decided, float], EstimatorTerms]] = {"ips": ips, "snips": snips, "dr": dr, "switch": switch}


class Estimate(NamedTuple):
    """The policy's reward a request, the log's, the difference of the two, and the interval of each."""

    value: Interval
    gain: Interval


def estimates(decided: Decided, clip: float, groups: NDArray[np.int64], seed: int) -> dict[str, Estimate]:
    """Return each estimator's estimate with intervals of the Poisson bootstrap; see bootstrap.intervals.

    Args:
        clip: the largest weight; above it `switch` takes the model's word.
        groups: int64[requests]; empty where each request is drawn by itself.
    """
    requests = len(decided.reward)
    terms = {name: estimator(decided, clip) for name, estimator in ESTIMATORS.items()} | {"logged": mean(decided.reward)}
    columns = np.stack([column for term in terms.values() for column in term], axis=1)
    random = np.random.default_rng(seed)
    sums = np.concatenate(
        [columns.sum(axis=0)[None], *(one.astype(np.float64) @ columns for one in drawn(requests, groups, random))]
    )
    values = {name: quotient(sums[:, 2 * at], sums[:, 2 * at + 1]) for at, name in enumerate(terms)}
    logged = values.pop("logged")
    return {name: Estimate(bounds(value, np.zeros(len(value))), bounds(value, logged)) for name, value in values.items()}


def bounds(first: Doubles, second: Doubles) -> Interval:
    """Return the interval of a difference: of all requests, and then of each replicate."""
    return interval(first[0], second[0], first[1:] - second[1:])


def effective_rows(weight: Doubles) -> float:
    """Return how many rows of equal weight tell as much: (Σw)² / Σw².

    Source: Kish, Survey Sampling, 1965.
    """
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares else 0.0

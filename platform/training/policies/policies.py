"""Policies: with which probability each candidate of a request is chosen, by its score.

Written `greedy`, `epsilon(0.05)`, `softmax(0.2)` or `softmax(0.2, floor = 0.01)`, for `xpsql serve --explore` and for
ML.OFF_POLICY.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import StatementError

Doubles = NDArray[np.float64]
Starts = NDArray[np.int64]

FLOOR = 0.01
WRITTEN = re.compile(r"\s*([a-z]+)\s*(?:\(\s*([^,()]+?)\s*(?:,\s*floor\s*=\s*([^,()]+?)\s*)?\))?\s*", re.IGNORECASE)
EXPECTED = "greedy, epsilon(0.05), or softmax(0.2, floor = 0.01)"
UNIT = float(1 << 64)


@dataclass(frozen=True)
class Policy:
    """A policy over the candidates of a request.

    Attributes:
        kind: greedy, epsilon or softmax.
        temperature: of softmax, in the unit of scores.
        floor: the share of decisions that is dealt evenly among all K candidates, so that each has a propensity of at least
            floor / K; epsilon's own number.
    """

    kind: str
    temperature: float = 0.0
    floor: float = 0.0

    @classmethod
    def of(cls, text: str) -> Policy:
        """Return a policy as written.

        Raises:
            StatementError: it is none.
        """
        match = WRITTEN.fullmatch(text)
        kind, first, floor = match.groups() if match else ("", None, None)
        kind = kind.lower()
        if kind == "greedy" and first is None:
            return cls("greedy")
        if kind == "epsilon" and first is not None and floor is None:
            return cls("epsilon", floor=share(first, text))
        if kind == "softmax" and first is not None:
            return cls("softmax", temperature(first, text), FLOOR if floor is None else share(floor, text))
        raise StatementError(f"Expected a policy, {EXPECTED}; got {text!r}.")

    @property
    def explores(self) -> bool:
        """Whether every candidate may be chosen."""
        return self.floor > 0

    def propensities(self, scores: Doubles, starts: Starts) -> Doubles:
        """Return the probability of each candidate, float64[n]; those of a request add up to 1.

        Args:
            scores: float64[n], of the candidates of all requests, request by request; no NaN.
            starts: int64[requests], where the candidates of each begin; each has one at least.
        """
        sizes = np.diff(starts, append=len(scores))
        highest = np.maximum.reduceat(scores, starts).repeat(sizes)
        if self.kind == "softmax":
            with np.errstate(invalid="ignore", over="ignore"):
                above = np.where(scores == highest, 0.0, scores - highest)  # also of infinite scores
                weights = np.exp(above / self.temperature)
        else:
            weights = (scores == highest).astype(np.float64)
        chosen: Doubles = weights / np.add.reduceat(weights, starts).repeat(sizes)
        return (1 - self.floor) * chosen + self.floor / sizes.repeat(sizes)


def scores_of(predictions: Doubles, classifier: bool) -> Doubles:
    """Return the scores that policies compare: log odds of probabilities, and numbers as they are."""
    if not classifier:
        return predictions
    with np.errstate(divide="ignore"):
        found: Doubles = np.log(predictions) - np.log1p(-predictions)
    return found


def drawn(propensities: Doubles, request: str, version: int) -> int:
    """Return the candidate that a request is given: a function of its id and the version, so that a replay draws the same."""
    digest = hashlib.blake2b(f"{version}:{request}".encode(), digest_size=8).digest()
    at = int.from_bytes(digest, "little") / UNIT
    cumulative = np.cumsum(propensities)
    return min(int(np.searchsorted(cumulative, at * cumulative[-1], side="right")), int(np.flatnonzero(propensities)[-1]))


def share(text: str, written: str) -> float:
    if (found := number(text)) is None or not 0 < found <= 1:
        raise StatementError(f"The share of {written!r} that is dealt evenly must be above 0 and at most 1; got {text}.")
    return found


def temperature(text: str, written: str) -> float:
    if (found := number(text)) is None or not 0 < found < float("inf"):
        raise StatementError(f"The temperature of {written!r} must be a positive number; got {text}.")
    return found


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

"""Choosing among the candidates of a request by a policy that explores, with the propensity of each, for the log."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..training.policies.policies import Doubles, Policy, drawn, scores_of
from .loaded import Loaded
from .refusal import RequestError

MOST_LETTERS = 200
ALL = np.zeros(1, np.int64)


class Choice(NamedTuple):
    """What was chosen for a request: which candidate, and the propensity of each."""

    request: str
    place: int
    propensities: Doubles

    def answer(self) -> dict[str, Any]:
        """Return what the answer of the request says of it."""
        return {"chosen": self.place, "propensity": float(self.propensities[self.place]), "request": self.request}


def chosen(asked: Any, policy: Policy | None, loaded: Loaded, predictions: Mapping[str, pa.Array]) -> Choice | None:
    """Return the choice of a request that asks for one: `"choose": true`, and perhaps `"request"`, its id.

    Args:
        asked: the request, an object.
        policy: of the service; None where it does not explore.

    Raises:
        RequestError: nothing can be chosen.
    """
    if asked["choose"] is False:
        return None
    if asked["choose"] is not True or "candidates" not in asked:
        raise RequestError(400, 'Expected "choose": true together with candidates, one of which is chosen.')
    if policy is None:
        raise RequestError(400, "This service does not choose. Start it with --explore and a policy, such as 'epsilon(0.05)'.")
    if not loaded.columns.labels or loaded.columns.classes is not None:
        raise RequestError(400, f"Candidates are chosen by one score, and {loaded.model} has none, or one for each class.")
    scores = scores_of(next(iter(predictions.values())).to_numpy().astype(np.float64), loaded.probabilities)
    if not len(scores) or np.isnan(scores).any():
        raise RequestError(400, "Nothing can be chosen: there are no candidates, or a prediction is not a number.")
    propensities, request = policy.propensities(scores, ALL), id_of(asked)
    return Choice(request, drawn(propensities, request, loaded.number), propensities)


def id_of(asked: Mapping[str, Any]) -> str:
    """Return the id of a request, a new one where it has none: in order of time.

    Raises:
        RequestError: it is no short text.
    """
    found = asked.get("request")
    if found is None:
        return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"
    if not isinstance(found, str) or not 0 < len(found) <= MOST_LETTERS:
        raise RequestError(400, f"request must be its id, a text of {MOST_LETTERS} letters at most.")
    return found

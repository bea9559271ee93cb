"""Logs of decisions: the candidates of requests, which of them was shown, what it earned, and how probable it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import DataError
from .estimators import Decided, Doubles
from .policies import scores_of

SEED = 7
ENOUGH = 100
"""Effective rows below which nothing is estimated."""
REQUEST, CHOSEN, PROPENSITY = "REQUEST", "CHOSEN", "PROPENSITY"
REWARD, ACTION, GROUP = "REWARD", "ACTION", "GROUP"
LOGGED = {REQUEST: "served_request", CHOSEN: "served_chosen", PROPENSITY: "served_propensity"}
"""The columns of a log of xpsql serve --explore."""
NUMBERS = (CHOSEN, PROPENSITY, REWARD)
"""Those that are numbers, or booleans."""


class DecisionLog(NamedTuple):
    """The candidates of a log, request by request.

    Attributes:
        starts: int64[requests], where the candidates of each begin.
        chosen: int64[requests], which candidate was shown.
        reward, expected, scores, propensity: float64[candidates]; a propensity that the log does not know is NaN.
        groups: int64[requests]; empty without GROUP.
    """

    starts: NDArray[np.int64]
    chosen: NDArray[np.int64]
    reward: Doubles
    expected: Doubles
    scores: Doubles
    propensity: Doubles
    groups: NDArray[np.int64]


def candidates_of(rows: pa.Table, names: Mapping[str, str], classifier: bool) -> DecisionLog:
    """Return the candidates of a log in order of their requests.

    Args:
        rows: a column for each keyword, and `predicted`.
        names: what the log calls them, for messages.

    Raises:
        DataError: see OffPolicy.measure.
    """
    requests = codes(rows.column(REQUEST), names[REQUEST])
    order = np.argsort(requests, kind="stable")
    requests = requests[order]
    starts = np.flatnonzero(np.diff(requests, prepend=-1))
    ids = rows.column(REQUEST).take(order)

    def request(at: int) -> str:
        return f"the request {ids[int(at)].as_py()!r}"

    taken = flags(rows.column(CHOSEN), names[CHOSEN])[order]
    counts = np.add.reduceat(taken.astype(np.int64), starts)
    if (counts != 1).any():
        at = int(np.argmax(counts != 1))
        raise DataError(
            f"{names[CHOSEN]} must be true in one row of each request; {request(starts[at])} has {counts[at]}. Give all "
            "candidates of a request, each once: a join may have repeated them."
        )
    chosen = np.flatnonzero(taken)
    reward, propensity, predicted = (floats(rows.column(name))[order] for name in (REWARD, PROPENSITY, "predicted"))
    for values, keyword, good, wanted in (
        (reward, REWARD, np.isfinite(reward[chosen]), "a finite number of what was shown; write coalesce(..., 0)"),
        (
            propensity,
            PROPENSITY,
            (propensity[chosen] > 0) & (propensity[chosen] <= 1),
            "above 0 and at most 1 of what was shown",
        ),
    ):
        if not good.all():
            at = int(chosen[np.argmin(good)])
            found = "NULL or NaN" if np.isnan(values[at]) else values[at]
            raise DataError(f"{names[keyword]} must be {wanted}; {request(at)} has {found}.")
    if ACTION in names:
        check_actions(codes(rows.column(ACTION), names[ACTION])[order], requests, names[ACTION], request)
    groups = np.empty(0, np.int64)
    if GROUP in names:
        groups = np.unique(codes(rows.column(GROUP), names[GROUP])[order][starts], return_inverse=True)[1]
    return DecisionLog(starts, chosen, reward, predicted, scores_of(predicted, classifier), propensity, groups)


def check_actions(actions: NDArray[np.int64], requests: NDArray[np.int64], name: str, request: Callable[[int], str]) -> None:
    """Refuse an action that comes twice in a request.

    Raises:
        DataError: it does.
    """
    order = np.lexsort((actions, requests))
    same = (np.diff(actions[order]) == 0) & (np.diff(requests[order]) == 0)
    if same.any():
        said = request(int(order[np.argmax(same)]))
        raise DataError(f"{name} comes twice in {said}: give each candidate once. A join may have repeated it.")


def decided_by(candidates: DecisionLog, policy: Doubles) -> Decided:
    """Return the requests for the estimators, under a policy's probabilities of candidates."""
    chosen = candidates.chosen
    return Decided(
        candidates.reward[chosen],
        policy[chosen] / candidates.propensity[chosen],
        candidates.expected[chosen],
        np.add.reduceat(policy * candidates.expected, candidates.starts),
    )


def unsupported(candidates: DecisionLog, policy: Doubles) -> float | None:
    """Return the share of decisions of a policy that the log could not have made; None where it does not know."""
    if np.isnan(candidates.propensity).any():
        return None
    return float((policy * (candidates.propensity <= 0)).sum() / len(candidates.starts))


def codes(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """Return a number for each distinct value.

    Raises:
        DataError: one is NULL.
    """
    if column.null_count:
        raise DataError(
            f"{name} is NULL in {column.null_count:,} rows. Filter them out: such requests were not decided by a policy."
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    found: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return found


def flags(column: pa.ChunkedArray, name: str) -> NDArray[np.bool_]:
    """Return booleans, or numbers of 0 and 1.

    Raises:
        DataError: a value is neither.
    """
    values = floats(column)
    if not ((values == 0) | (values == 1)).all():
        raise DataError(f"{name} must be true or false, or 1 and 0.")
    found: NDArray[np.bool_] = values == 1
    return found


def floats(column: pa.ChunkedArray) -> Doubles:
    """Return numbers, NaN for NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)

"""The contract of a metric.

A metric has a name, the traits of examples that it needs, a statistic, and its value as a function of that. A statistic is what
is counted: it begins at `zero`, takes in examples by `add`, and what several workers counted becomes one by `merge`, in any
order. Metrics of one statistic share what it counts. State is a tuple of arrays, so it travels and is kept in checkpoints as
it is. `add` and `merge` may reuse the arrays of the first state they are given, and change no others.

Traits: `labels` (there are any), `classes` (they are 0 or 1, and predictions probabilities), `multiclass` (they are numbers of
classes, each of which has a probability), `numbers` (they are neither), `counts` (numbers of at least 0, whose logarithms were
learned), `quantile` and `quantile=0.9` (predictions are that quantile), `found` (there are none; predictions are the loss of an
example, and whether its item is among the best of a sample), `groups` (examples belong to groups, and the statement
says so), `late` (an example comes with 0, and once more with 1 where that is its label: then the first is taken out again).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ps.transport.checks import refused

State = tuple[NDArray[Any], ...]
Doubles = NDArray[np.float64]


class Sample(NamedTuple):
    """Examples with their predictions.

    Attributes:
        labels, predictions: float64[n]; of classes, and of what is found, predictions are float64[n, k].
        groups: int64[n], any numbering; empty where there are none.
    """

    labels: Doubles
    predictions: Doubles
    groups: NDArray[np.int64]


class Statistic(NamedTuple):
    """What is counted of examples.

    Attributes:
        name: unique among statistics.
        zero: gives the state of no examples.
        add: state and sample -> state.
        merge: two states -> one.
        check: raises TrainingError where a state from elsewhere is invalid.
        packed: state -> the same, small enough to be sent and kept.
        take_out: state and a sample that was added to it, or to what it is merged with -> state without it; None: it cannot.
    """

    name: str
    zero: Callable[[], State]
    add: Callable[[State, Sample], State]
    merge: Callable[[State, State], State]
    check: Callable[[State], None]
    packed: Callable[[State], State] = lambda state: state
    take_out: Callable[[State, Sample], State] | None = None


class Metric(NamedTuple):
    """A metric; see above.

    Attributes:
        help: what it is, for the reference.
        needs: traits.
        counts: its statistic.
        value: of a state; None where it is undefined.
        headline: SHOW VERSIONS and the progress of a training show it.
    """

    name: str
    help: str
    needs: frozenset[str]
    counts: Statistic
    value: Callable[[State], float | None]
    headline: bool = False


def sums(name: str, count: int, terms: Callable[[Sample], tuple[Any, ...]]) -> Statistic:
    """Return a statistic that is `count` sums over examples, float64[count].

    Args:
        terms: the sums over a sample.
    """

    def add(state: State, sample: Sample) -> State:
        return (state[0] + np.array(terms(sample), np.float64),)

    def merge(one: State, other: State) -> State:
        return (one[0] + other[0],)

    def take_out(state: State, sample: Sample) -> State:
        return (state[0] - np.array(terms(sample), np.float64),)

    def zero() -> State:
        return (np.zeros(count),)

    return Statistic(name, zero, add, merge, lambda state: check_doubles(name, state, count), take_out=take_out)


def check_doubles(name: str, state: State, count: int) -> None:
    """Require the state of a statistic that is one float64[count].

    Raises:
        TrainingError: it is invalid.
    """
    found = [(array.dtype.name, array.shape) for array in state]
    if found != [("float64", (count,))]:
        raise refused(f"the state of {name}", f"float64[{count}]", found)


def ratio(over: float, under: float) -> float | None:
    """Return a quotient, None where it divides by zero."""
    return float(over / under) if under else None

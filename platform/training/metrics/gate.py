"""Release gates (RELEASE WHEN): the metrics that a condition names, and whether it holds.

A condition is a tree whose leaves are numbers and metrics. A comparison with a metric of the version served (`previous.auc`)
is unknown where no version is served yet, and a condition that is unknown holds: there is nothing to be worse than.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .labels import key

Metrics = Mapping[str, float | None]
"""By name: `auc` of the first label, `auc(buy)` of any; labels in lower case."""

VALIDATION, RAW = "validation.", "raw."
"""The prefixes of metrics of the validation rows, and of predictions before they are calibrated."""
OF_RAW, OF_FIELD = ("pcopc", "ece"), ("field_ce", "field_rce")
"""The metrics that have the latter, and those that name the column of EVALUATE's BY in parentheses."""
GAINS = ("gain", "gain_low", "gain_high")
"""What the model would earn on the validation rows beyond the policy that decided them, with an interval."""
DRIFT, DRIFT_MAX, NULL_SHARE, NEW_SHARE = "drift", "drift.max", "null_share", "new_share"
OF_SLOT = (DRIFT, NULL_SHARE, NEW_SHARE)
"""What is measured of a slot's values in the rows that were learned; all but NULLs beside the version before."""
OF_VERSION = (DRIFT, DRIFT_MAX, NEW_SHARE)
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Node(NamedTuple):
    """A node of a condition's tree.

    Attributes:
        kind: `number`, `metric`, `previous`, a sign of COMPARISONS or ARITHMETIC, `and`, `or` or `not`.
        value: of a number, or the name of a metric.
        parts: what it combines.
        label: whose metric; None: the first label's.
    """

    kind: str
    value: float | str = 0.0
    parts: tuple[Node, ...] = ()
    label: str | None = None

    @property
    def name(self) -> str:
        """The metric of a label, as in `auc(buy)`."""
        return key(str(self.value), self.label)

    def leaves(self) -> Iterator[Node]:
        """Iterate over the numbers and metrics that it names."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


class Condition(NamedTuple):
    """A condition as written, and its tree."""

    text: str
    tree: Node

    @property
    def names_gain(self) -> bool:
        """Whether it names one of GAINS."""
        return any(leaf.value in {f"{VALIDATION}{name}" for name in GAINS} for leaf in self.tree.leaves())

    def failing(self, metrics: Metrics, previous: Metrics | None) -> str | None:
        """Return why the condition does not hold, naming metrics and their values; None where it holds, as far as is known of
        drift: there may be no rows to compare with.

        Args:
            previous: of the version served; None: none is.
        """
        drifting = {leaf.name for leaf in self.tree.leaves() if leaf.value in OF_VERSION}
        missing = [name for name, value in self.named(metrics, previous) if value is None and name not in drifting]
        if missing:
            return f"{', '.join(missing)} is not known"
        if truth(self.tree, metrics, previous):
            return None
        return ", ".join(f"{name} is {value:.6g}" for name, value in self.named(metrics, previous) if value is not None)

    def named(self, metrics: Metrics, previous: Metrics | None) -> list[tuple[str, float | None]]:
        """Return the metrics that it names with their values; metrics of the served version only where one is served."""
        found: dict[str, float | None] = {}
        for leaf in self.tree.leaves():
            if leaf.kind == "metric":
                found[leaf.name] = metrics.get(leaf.name.lower())
            elif leaf.kind == "previous" and previous is not None:
                name = leaf.name if leaf.value in OF_VERSION else f"previous.{leaf.name}"
                found[name] = previous.get(leaf.name.lower())
        return list(found.items())


def truth(node: Node, metrics: Metrics, previous: Metrics | None) -> float:
    """Return 1 where a test is true, 0 where it is false, 1/2 where it is unknown; every metric that it names is known, but for
    drift.

    Source: Kleene, Introduction to Metamathematics, 1952, section 64.
    """
    if node.kind == "not":
        return 1 - truth(node.parts[0], metrics, previous)
    if node.kind in ("and", "or"):
        combine = min if node.kind == "and" else max
        return combine(truth(part, metrics, previous) for part in node.parts)
    for leaf in node.leaves():
        if leaf.kind == "previous" and (
            previous is None or (leaf.value in OF_VERSION and previous.get(leaf.name.lower()) is None)
        ):
            return 0.5
    left, right = (number(part, metrics, previous) for part in node.parts)
    return float(COMPARISONS[node.kind](left, right))


def number(node: Node, metrics: Metrics, previous: Metrics | None) -> float:
    """Return the value of a sum; a quotient by zero is NaN, with which no comparison but <> holds."""
    if node.kind == "number":
        return float(node.value)
    if node.kind in ("metric", "previous"):
        value = (metrics if node.kind == "metric" else previous or {})[node.name.lower()]
        return float("nan") if value is None else float(value)
    left, right = (number(part, metrics, previous) for part in node.parts)
    return float("nan") if node.kind == "/" and right == 0 else ARITHMETIC[node.kind](left, right)


def judged(values: Metrics, validation: Metrics, labels: Sequence[str]) -> dict[str, float | None]:
    """Return the metrics of all labels, see `flat`, as conditions name them: the first label's also by its name.

    Args:
        validation: metrics of the validation rows.
    """
    found = {name.lower(): value for name, value in values.items()}
    found |= {f"{VALIDATION}{name.lower()}": value for name, value in validation.items()}
    return found | {key(name, label.lower()): value for label in labels[:1] for name, value in found.items() if "(" not in name}

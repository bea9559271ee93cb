"""Metrics of predictions, accumulated batch by batch, for every label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...errors import no_number
from ...ps.transport.checks import COUNT, check_names, check_within, refused
from . import APART, metric_names, metrics_for
from .base import Sample, State, Statistic
from .labels import Values, flat
from .ranking import RANKING, calibration

PENDING = 1 << 14
NO_GROUPS = np.empty(0, np.int64)

Floats = NDArray[np.float32]


class Tally(NamedTuple):
    """Partial aggregates of a label's metrics, which workers send and the driver adds up exactly.

    Attributes:
        examples: how many.
        label_sum: of their labels.
        states: of statistics by name, packed.
    """

    examples: int
    label_sum: float
    states: dict[str, State]


class Targets(NamedTuple):
    """The labels that predictions are measured against.

    Attributes:
        labels: their names, the first first; one empty name where there are none.
        traits: see base.py.
    """

    labels: tuple[str, ...]
    traits: frozenset[str]

    @classmethod
    def of(cls, labels: Sequence[str], measured: str, grouped: bool, late: bool = False) -> Self:
        """Return the targets of a model.

        Args:
            measured: what labels are, see Algorithm; its words are traits, and so is the word before a sign of equality.
            grouped: examples come with groups.
            late: their labels come late.
        """
        more = {"labels": bool(labels), "groups": grouped, "late": late}
        words = {part for word in measured.split() for part in (word, word.partition("=")[0])}
        return cls(tuple(labels) or ("",), frozenset({*words, *(trait for trait, holds in more.items() if holds)}))

    @property
    def ungrouped(self) -> Targets:
        """The same without groups."""
        return self._replace(traits=self.traits - {"groups"})

    @property
    def final(self) -> Targets:
        """The same for examples that come once, with their final labels; without groups."""
        return self._replace(traits=self.traits - {"groups", "late"})

    @property
    def statistics(self) -> dict[str, Statistic]:
        """What is counted of each label, by name."""
        return {metric.counts.name: metric.counts for metric in metrics_for(self.traits)}


class Metrics:
    """Running metrics of one label.

    Args:
        traits: of the examples, see base.py.
    """

    def __init__(self, traits: frozenset[str]) -> None:
        self.examples = 0
        self._traits = traits
        self._metrics = metrics_for(traits)
        self._statistics = {metric.counts.name: metric.counts for metric in self._metrics}
        self._states = {name: statistic.zero() for name, statistic in self._statistics.items()}
        self._label_sum = 0.0
        self._waiting: list[tuple[Floats, Floats, NDArray[np.int64]]] = []
        self._num_waiting = 0

    def add(self, labels: Floats, predictions: Floats, groups: NDArray[np.int64] = NO_GROUPS) -> None:
        """Take in float32[n] labels and predictions, of classes float32[n, k], and int64[n] groups where they are measured."""
        self.examples += len(labels)
        self._waiting.append((labels, predictions, groups))
        self._num_waiting += len(labels)
        if self._num_waiting >= PENDING:
            self._settle()

    def tally(self) -> Tally:
        """Return what was counted."""
        self._settle()
        states = {name: self._statistics[name].packed(state) for name, state in self._states.items()}
        return Tally(self.examples, self._label_sum, states)

    def take(self, tally: Tally) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: it is not a tally of this label.
        """
        self.check(tally)
        self.examples += tally.examples
        self._label_sum += tally.label_sum
        for name, statistic in self._statistics.items():
            self._states[name] = statistic.merge(self._states[name], tally.states[name])

    def check(self, tally: Tally) -> None:
        """Require a tally of what is counted here.

        Raises:
            TrainingError: it is invalid.
        """
        check_within("the examples of a tally", tally.examples, COUNT)
        check_names("the statistics of a tally", tally.states, self._statistics, self._statistics)
        for name, statistic in self._statistics.items():
            statistic.check(tally.states[name])

    def as_dict(self) -> Values:
        """Return the metrics by name, as ML.EVALUATE shows them; None where one is undefined."""
        self._settle()
        values: Values = dict.fromkeys(metric_names("groups" in self._traits))
        return {"examples": self.examples, **values, **{m.name: m.value(self._states[m.counts.name]) for m in self._metrics}}

    def some(self, names: Iterable[str]) -> dict[str, float]:
        """Return some of the metrics by name, without undefined ones."""
        self._settle()
        wanted = [metric for metric in self._metrics if metric.name in names]
        values = {metric.name: metric.value(self._states[metric.counts.name]) for metric in wanted}
        return {name: value for name, value in values.items() if value is not None}

    def calibration(self, parts: int) -> tuple[tuple[float, float, int], ...]:
        """Return mean prediction, mean label and examples of parts of about equal size; empty where there are no classes."""
        self._settle()
        return calibration(self._states[RANKING.name], parts) if RANKING.name in self._states else ()

    @property
    def label_rate(self) -> float:
        """The mean label."""
        return self.label_sum / max(self.shown, 1)

    @property
    def label_sum(self) -> float:
        """The sum of labels."""
        self._settle()
        return self._label_sum

    @property
    def shown(self) -> float:
        """The number of examples; one whose label comes late counts once."""
        return self.examples - (self.label_sum if "late" in self._traits else 0)

    def _settle(self) -> None:
        """Count what waits: many small batches at once."""
        if not self._waiting:
            return
        labels, predictions, groups = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting, self._num_waiting = [], 0
        if np.isnan(predictions).any():
            raise no_number("The model predicts NaN")
        sample = Sample(labels.astype(np.float64), predictions.astype(np.float64), groups)
        self._label_sum += float(sample.labels.sum())
        for name, statistic in self._statistics.items():
            self._states[name] = statistic.add(self._states[name], sample)
        if "late" in self._traits and (again := sample.labels > 0).any():
            first = Sample(np.zeros(np.count_nonzero(again)), sample.predictions[again], NO_GROUPS)
            for name, statistic in self._statistics.items():
                assert statistic.take_out is not None  # metrics_for
                self._states[name] = statistic.take_out(self._states[name], first)


class LabelMetrics:
    """Running metrics of all labels.

    Attributes:
        first: the metrics of the first label.
    """

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._by_label = {label: Metrics(targets.traits) for label in targets.labels}
        self.first = self._by_label[targets.labels[0]]

    @classmethod
    def of(cls, targets: Targets, tallies: Iterable[Sequence[Tally]]) -> Self:
        """Return the metrics of several sources: a tally of each label from each."""
        metrics = cls(targets)
        for one in tallies:
            metrics.take(one)
        return metrics

    def add(self, labels: Floats, predictions: Floats, groups: NDArray[np.int64] = NO_GROUPS) -> None:
        """Take in float32[num_labels, n] labels and predictions, of classes and of what is found float32[k, n], and int64[n]
        groups where they are measured."""
        by_label = [predictions.T] if self._targets.traits & APART else predictions
        for metrics, label, prediction in zip(self._by_label.values(), labels, by_label, strict=True):
            metrics.add(label, prediction, groups)

    def tallies(self) -> tuple[Tally, ...]:
        """Return what was counted of each label."""
        return tuple(metrics.tally() for metrics in self._by_label.values())

    def take(self, tallies: Sequence[Tally]) -> None:
        """Merge another's tallies.

        Raises:
            TrainingError: they are not tallies of these labels.
        """
        self.check(tallies)
        for metrics, tally in zip(self._by_label.values(), tallies, strict=True):
            metrics.take(tally)

    def check(self, tallies: Sequence[Tally]) -> None:
        """Require a tally of each label, of what is counted here.

        Raises:
            TrainingError: they are invalid.
        """
        if len(tallies) != len(self._by_label):
            raise refused("the tallies", f"{len(self._by_label)}, one of each label", len(tallies))
        for metrics, tally in zip(self._by_label.values(), tallies, strict=True):
            metrics.check(tally)

    def by_label(self) -> dict[str, Values]:
        """Return the metrics of each label by name; see Metrics.as_dict."""
        return {label: metrics.as_dict() for label, metrics in self._by_label.items()}

    def as_dict(self) -> Values:
        """Return the metrics of all labels by name: `auc` of the first, `auc(buy)` of another one."""
        return flat(self.by_label())


def weight_range(low: float, high: float) -> dict[str, float]:
    """Return the range of weights as ML.TRAINING_INFO names it."""
    return {"max_weight": high, "min_weight": low, "max_abs_weight": max(abs(low), abs(high))}

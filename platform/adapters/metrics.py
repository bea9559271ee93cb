"""Metrics of trainings and streams for Prometheus, from what a warehouse has: any process that trains, any engine, any exit.

What is counted never falls while a page goes on, also if a training is resumed from an earlier checkpoint or versions go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...warehouse.trainings.progress import read_progress
from ..errors import XpsqlError
from ..monitoring.alarm import escaped
from ..training.metrics import headlines
from ..training.profiles.drift import drifts
from ..training.profiles.stored import profiles_in

if TYPE_CHECKING:
    from ...warehouse.models import Models
    from ...warehouse.version import Version

MOST_SLOTS = 100
COUNTER, GAUGE = "counter", "gauge"
STATUSES = ("ready", "held", "failed", "training", "interrupted")


class TrainingMetric(NamedTuple):
    """A metric: its type, what it is, and the labels beside `model`."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()
    unit: str = "short"


TRAINING: Mapping[str, TrainingMetric] = {
    "xpsql_training_examples_total": TrainingMetric(COUNTER, "Examples learned, with those of the training under way."),
    "xpsql_training_windows_total": TrainingMetric(COUNTER, "Windows of EVALUATE that ended."),
    "xpsql_training_recoveries_total": TrainingMetric(COUNTER, "Recoveries from lost tasks."),
    "xpsql_training_running": TrainingMetric(GAUGE, "1 while a version is in training."),
    "xpsql_training_metric": TrainingMetric(
        GAUGE, "Metrics of the newest window, or of the newest version.", ("label", "metric"), "none"
    ),
    "xpsql_training_features": TrainingMetric(GAUGE, "Features that have a row."),
    "xpsql_training_memory_bytes": TrainingMetric(GAUGE, "Memory of the rows in training.", (), "bytes"),
    "xpsql_drift": TrainingMetric(GAUGE, "Drift of a slot's values from those of the version before.", ("slot",), "none"),
    "xpsql_versions": TrainingMetric(GAUGE, "Versions that are there, by status: held ones failed their gate.", ("status",)),
    "xpsql_served_version": TrainingMetric(GAUGE, "The version that is served.", (), "none"),
    "xpsql_version_seconds": TrainingMetric(GAUGE, "Seconds that the newest version took.", (), "s"),
    "xpsql_last_publication_timestamp_seconds": TrainingMetric(
        GAUGE, "When the newest version that is ready ended.", (), "dateTimeFromNow"
    ),
    "xpsql_stream_lag_rows": TrainingMetric(GAUGE, "Rows of the stream that a resident training has not learned yet."),
    "xpsql_stream_lag_seconds": TrainingMetric(GAUGE, "Age of the oldest of them.", (), "s"),
}
"""All metrics, from which pages, the dashboard and the docs are made."""

Sample = tuple[str, Mapping[str, str], float]


class Page:
    """Pages of a warehouse's metrics in Prometheus' text format; what is counted is kept from page to page."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._most: dict[tuple[str, tuple[str, ...]], float] = {}
        self._drift: dict[str, tuple[int, list[Sample]]] = {}

    def text(self) -> str:
        """Return the page as of now."""
        samples = [sample for model in self._models.names() for sample in self._of_model(model)]
        lines = []
        for name, described in TRAINING.items():
            lines += [f"# HELP {name} {described.help}", f"# TYPE {name} {described.kind}"]
            for of, labels, value in samples:
                if of != name:
                    continue
                if described.kind == COUNTER:
                    key = name, tuple(labels.values())
                    self._most[key] = value = max(self._most.get(key, 0.0), value)
                text = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
                lines.append(f"{name}{{{text}}} {value!r}")
        return "\n".join(lines) + "\n"

    def _of_model(self, model: str) -> Iterator[Sample]:
        try:
            versions = self._models.present(model)
            if not versions:
                return
            of = {"model": model}
            yield from counted(of, versions)
            yield from newest(of, versions)
            yield from self._drifted(of, versions)
            if (status := self._models.residence(model).status()) is not None:
                for name in ("lag_rows", "lag_seconds"):
                    if (value := getattr(status, name)) is not None:
                        yield f"xpsql_stream_{name}", of, float(value)
        except (XpsqlError, OSError):  # it is dropped or damaged, which SHOW MODELS says
            return

    def _drifted(self, of: Mapping[str, str], versions: list[Version]) -> Iterator[Sample]:
        """Compare the newest version with its parent, once."""
        ended = [one for one in versions if one.manifest.status in ("ready", "held")]
        if not ended:
            return
        now = ended[-1]
        if (known := self._drift.get(of["model"])) is None or known[0] != now.number:
            before = next((one for one in ended if one.number == now.manifest.parent), None)
            found = [] if before is None else [one for one in drifts(profiles_in(before), profiles_in(now)) if one.counts]
            worst = sorted(found, key=lambda one: -(one.drift or 0.0))[:MOST_SLOTS]
            known = now.number, [("xpsql_drift", {**of, "slot": one.slot}, float(one.drift or 0.0)) for one in worst]
            self._drift[of["model"]] = known
        yield from known[1]


def counted(of: Mapping[str, str], versions: list[Version]) -> Iterator[Sample]:
    """Yield what is counted of a model."""
    lines = [read_progress(one.folder) for one in versions]
    last = versions[-1].manifest
    learning = last.status in ("training", "interrupted")
    before = max((one.manifest.learned.examples_total for one in versions), default=0)
    yield "xpsql_training_examples_total", of, float(before + (under_way(versions[-1], lines[-1]) if learning else 0))
    windows = sum(line.get("window") is not None and not line.get("segment") for own in lines for line in own)
    yield "xpsql_training_windows_total", of, float(windows)
    recoveries = sum(max((int(line.get("recoveries") or 0) for line in own), default=0) for own in lines)
    yield "xpsql_training_recoveries_total", of, float(recoveries)
    yield "xpsql_training_running", of, float(last.status == "training")
    found = Counter[str](one.manifest.status for one in versions)
    for status in STATUSES:
        yield "xpsql_versions", {**of, "status": status}, float(found[status])


def under_way(version: Version, lines: list[dict[str, Any]]) -> int:
    """Return how many examples a training has learned by its last windows: those of a batch, for each batch of a split."""
    batches: dict[tuple[int, int], int] = {}
    for line in lines:
        if line.get("window") is not None:
            place = int(line.get("pass") or 0), int(line.get("split") or 0)
            batches[place] = max(batches.get(place, 0), int(line.get("batch") or 0))
    return sum(batches.values()) * version.manifest.sizes.batch_size


def newest(of: Mapping[str, str], versions: list[Version]) -> Iterator[Sample]:
    """Yield what is known of the newest versions of a model."""
    last, ready = versions[-1], [one for one in versions if one.manifest.status == "ready"]
    for one in versions:
        if one.served:
            yield "xpsql_served_version", of, float(one.number)
    if ready:
        manifest = ready[-1].manifest
        if manifest.finished is not None:
            yield "xpsql_last_publication_timestamp_seconds", of, manifest.finished.timestamp()
        if manifest.seconds is not None:
            yield "xpsql_version_seconds", of, float(manifest.seconds)
    lines = read_progress(last.folder)
    features = next(
        (line["features"] for line in reversed(lines) if line.get("features") is not None), last.manifest.learned.rows
    )
    if features is not None:
        yield "xpsql_training_features", of, float(features)
    if (memory := next((line["memory_bytes"] for line in reversed(lines) if line.get("memory_bytes")), None)) is not None:
        yield "xpsql_training_memory_bytes", of, float(memory)
    yield from measured(of, last, lines)


def measured(of: Mapping[str, str], version: Version, lines: list[dict[str, Any]]) -> Iterator[Sample]:
    """Yield the metrics of the newest window of each label; those of the version where no window has ended."""
    labels = version.manifest.roles.labels
    by_label = {line.get("label") or "": line for line in lines if line.get("window") is not None and not line.get("segment")}
    found: dict[str, Mapping[str, Any]] = {**by_label} if by_label else {"": version.manifest.metrics}
    for label, values in found.items():
        for metric in headlines():
            if (value := values.get(metric)) is not None:
                yield (
                    "xpsql_training_metric",
                    {**of, "label": label or (labels[0] if labels else ""), "metric": metric},
                    float(value),
                )

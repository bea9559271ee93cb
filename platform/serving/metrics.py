"""Metrics of the service, for Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from .loaded import Loaded

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the latency histogram's buckets, in seconds."""


class Requests:
    """Counts of requests, of rows and of seconds; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._rows: Counter[str] = Counter()
        self._latencies: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def add(self, model: str, status: int, rows: int, seconds: float) -> None:
        """Count a request for a model, an empty name where it named no served model."""
        with self._lock:
            self._requests[model, status] += 1
            if status == 200:
                self._rows[model] += rows
                self._latencies.setdefault(model, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
                self._seconds[model] += seconds  # type: ignore[assignment]  # a Counter adds floats as well

    def text(self, loaded: Iterable[Loaded], failures: Mapping[str, int], failing: Callable[[Loaded], bool]) -> str:
        """Return all counts, and which versions are served, in Prometheus' text format."""
        served = list(loaded)
        with self._lock:
            lines = [*self._counted(), *versions(served, failures, failing)]
        return "\n".join(lines) + "\n"

    def _counted(self) -> Iterator[str]:
        yield from head("xpsql_requests_total", "counter", "Requests answered, by model and status of HTTP.")
        for (model, status), count in sorted(self._requests.items()):
            yield f'xpsql_requests_total{{model="{escaped(model)}",status="{status}"}} {count}'
        yield from head("xpsql_rows_total", "counter", "Rows scored.")
        for model, count in sorted(self._rows.items()):
            yield f'xpsql_rows_total{{model="{escaped(model)}"}} {count}'
        yield from head("xpsql_request_seconds", "histogram", "Seconds that a scored request took in the service.")
        for model, counts in sorted(self._latencies.items()):
            total = 0
            for end, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                total += count
                yield f'xpsql_request_seconds_bucket{{model="{escaped(model)}",le="{end}"}} {total}'
            yield f'xpsql_request_seconds_sum{{model="{escaped(model)}"}} {self._seconds[model]:.6f}'
            yield f'xpsql_request_seconds_count{{model="{escaped(model)}"}} {total}'


def versions(served: Iterable[Loaded], failures: Mapping[str, int], failing: Callable[[Loaded], bool]) -> Iterator[str]:
    served, now = list(served), datetime.now(UTC)
    yield from head("xpsql_model_version", "gauge", "The version that is served.")
    yield from (f'xpsql_model_version{{model="{escaped(one.model)}"}} {one.number}' for one in served)
    yield from head("xpsql_model_age_seconds", "gauge", "Seconds since the training of the served version ended.")
    for one in served:
        if one.created is not None:
            age = (now - one.created).total_seconds()
            yield f'xpsql_model_age_seconds{{model="{escaped(one.model)}"}} {age:.3f}'
    yield from head("xpsql_model_load_failures_total", "counter", "Polls of the warehouse that failed.")
    for one in served:
        yield f'xpsql_model_load_failures_total{{model="{escaped(one.model)}"}} {failures.get(one.model.lower(), 0)}'
    yield from head(
        "xpsql_model_load_failing", "gauge", "1 while the version to serve cannot be loaded, and the last one stays."
    )
    yield from (f'xpsql_model_load_failing{{model="{escaped(one.model)}"}} {int(failing(one))}' for one in served)


def head(name: str, kind: str, help: str) -> tuple[str, str]:
    return f"# HELP {name} {help}", f"# TYPE {name} {kind}"


def escaped(value: str) -> str:
    """Return a text as the value of a label."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""What pulling ahead hides of the time that shards and the network take, and what it costs in AUC.

    python -m benchmarks.pulls_ahead FILE TEST WAREHOUSE [--algorithm A] [--workers N] [--milliseconds M ...] [--depth D ...]

Trains on the Parquet FILE in one process. Shards do what is asked of them at once, but each answer comes M milliseconds after
its request, as from another machine; pulls are D batches ahead, and see what was pushed before they were sent, as there.
Printed: seconds of learning; seconds of pulls, pushes and computing, summed over workers; and the AUC on TEST.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from xpsql.platform.input.batches import Batch
from xpsql.platform.input.prefetch import Coming
from xpsql.platform.input.source import End
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.client import Handle, LocalClient
from xpsql.platform.ps.messages import Keys, Pulled, Push
from xpsql.platform.session import connect
from xpsql.platform.training.online import local
from xpsql.platform.training.online.worker import Worker

A = TypeVar("A")
TRAIN = (
    "TRAIN OR REPLACE MODEL ahead USING {algorithm} IGNORE (ts) WITH (workers = {workers}) AS SELECT * FROM parquet.`{file}`"
)
SPENT = "SELECT pull_seconds, push_seconds, compute_seconds FROM ML.TRAINING_INFO(MODEL ahead) ORDER BY time DESC LIMIT 1"
AUC = "SELECT auc FROM ML.EVALUATE(MODEL ahead, (SELECT * FROM parquet.`{test}`))"


class Late(NamedTuple):
    """An answer that comes at a time."""

    answer: Handle[A]  # type: ignore[valid-type]
    at: float

    def result(self) -> A:  # type: ignore[type-var]
        """See Handle."""
        time.sleep(max(0.0, self.at - time.monotonic()))
        return self.answer.result()  # type: ignore[no-any-return]


def far_client(seconds: float) -> type[LocalClient]:
    """Return the class of clients whose answers take so long."""

    class FarClient(LocalClient):
        def start_pull(self, keys: Keys, size: int, dense: bool = True) -> Handle[Pulled]:
            at = time.monotonic() + seconds
            return Late(super().start_pull(keys, size, dense), at)

        def start_push(self, push: Push) -> Handle[object]:
            at = time.monotonic() + seconds
            return Late(super().start_push(push), at)

    return FarClient


def ahead_worker(depth: int) -> type[Worker]:
    """Return the class of workers that pull so far ahead."""

    class AheadWorker(Worker):
        def learn(self, batches: Coming[Batch | End], begin: Callable[[], bool], paced: bool) -> None:  # type: ignore[override]
            if depth:
                self.learn_ahead(batches, begin, depth, lambda item: True)
            else:
                super().learn(batches, begin, paced)

    return AheadWorker


def main() -> None:
    """Measure each combination."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("file", "test", "warehouse"):
        parser.add_argument(name)
    parser.add_argument("--algorithm", default="xftrl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--milliseconds", type=float, nargs="+", default=[0, 5])
    parser.add_argument("--depth", type=int, nargs="+", default=[0, 1, 2, 4])
    given = parser.parse_args()
    for milliseconds in given.milliseconds:
        for depth in given.depth:
            setattr(local, "LocalClient", far_client(milliseconds / 1000))  # noqa: B010
            setattr(local, "Worker", ahead_worker(depth))  # noqa: B010
            with connect(given.warehouse, reporter=SilentReporter()) as session:
                start = time.monotonic()
                session.sql(TRAIN.format(algorithm=given.algorithm, workers=given.workers, file=given.file))
                seconds = time.monotonic() - start
                spent = session.sql(SPENT).arrow().to_pylist()[0]
                (auc,) = session.sql(AUC.format(test=given.test)).arrow().column(0).to_pylist()
            waits = ", ".join(f"{name.removesuffix('_seconds')} {value:.2f} s" for name, value in spent.items())
            what = f"{given.algorithm}, {given.workers} workers, {milliseconds:g} ms, {depth} ahead"
            print(f"{what}: {seconds:.2f} s; {waits}; AUC {auc:.5f}", flush=True)


if __name__ == "__main__":
    main()

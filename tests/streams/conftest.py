"""What tests of streams share: brokers of Kafka, started once for the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.streams.broker import REAL, Broker, MockCluster
from xpsql.platform.input.streams import messages


@pytest.fixture(autouse=True)
def _asks_no_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster does not say whether a topic is compacted."""
    if not REAL:
        monkeypatch.setattr(messages, "POLICY_SECONDS", 0.01)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with ExitStack() as stack:
        yield Broker(None if REAL else stack.enter_context(closing(MockCluster())))


@pytest.fixture
def faulty() -> Iterator[Broker]:
    """Two brokers of one test, which may go wrong."""
    with closing(MockCluster(2)) as cluster:
        yield Broker(cluster)

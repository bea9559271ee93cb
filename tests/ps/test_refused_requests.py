"""Requests that fit no shard, coordinator or driver are answered with an error of ours, change nothing and take no memory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.ps.serving import HOST, SECRET
from tests.ps.test_remote_client import LocalClient, new_shard, pushed, random_keys
from xpsql.platform.errors import CheckpointError, TrainingError, XpsqlError
from xpsql.platform.input.dealing import Dealer
from xpsql.platform.ps._native import Arguments, Layout, memory
from xpsql.platform.ps.compiled.ladder import Ladder, most_padded
from xpsql.platform.ps.gang import Gang
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.service import DESCRIBE, PULL, PUSH, DescriptionRequest, Pull, shard_handlers
from xpsql.platform.ps.shard import Push
from xpsql.platform.ps.table import BatchId
from xpsql.platform.ps.transport.connection import Connection
from xpsql.platform.ps.transport.over_sockets import SocketTransport
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.wire import ConnectionLimits, Method
from xpsql.platform.ps.watermarks import Turn, Watermarks, turns_of
from xpsql.platform.training.metrics.metrics import Metrics, Tally, Targets
from xpsql.platform.training.packaged.rounds import LearnedModel, LearnerRendezvous
from xpsql.platform.training.solved.examples import NO_FEATURES, KeyedFeatures
from xpsql.platform.training.solved.rates import OfferedColumns
from xpsql.platform.training.solved.solver_rounds import (
    NO_MOMENTS,
    NO_NUMBERS,
    EncodedFeatures,
    OrderResult,
    SolverRendezvous,
)
from xpsql.platform.training.tasks import coordinator as meeting_point
from xpsql.platform.training.tasks.collective import OrderRequest
from xpsql.platform.training.tasks.coordinator import Coordinator
from xpsql.platform.training.tasks.remote_checkpoints import WRITE, Write, checkpoint_handlers
from xpsql.warehouse.storage import Storage

SECONDS = 60
GIBIBYTE = 1 << 30
KEYS = random_keys(40, 1)


class Attacked(NamedTuple):
    """A shard behind a server, a client that has proved itself, and a push that fits."""

    connection: Connection
    push: Push


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    shard = new_shard()
    shard.moments = no_moments(3)
    shard.watermarks = Watermarks.fresh(range(1024), shard.dense.names, 0)
    push = pushed(LocalClient([new_shard()]), KEYS, 2)._replace(moments=no_moments(3))
    handlers = shard_handlers(shard) + checkpoint_handlers(shard, None, Storage(str(tmp_path_factory.mktemp("c"))), 0, 1)
    with Server("the shard", handlers, SECRET, HOST) as server:
        connection = Connection("the shard", server.address, SECRET, ConnectionLimits(), None)
        yield Attacked(connection, push)
        connection.close()


def answers(on: Attacked) -> bool:
    """Whether the shard still serves an honest client."""
    pulled = on.connection.call(PULL, Pull(KEYS, 64, True), SECONDS)
    return on.connection.call(DESCRIBE, DescriptionRequest(), SECONDS).rows == 0 and not pulled.weights["weights"].any()


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def refuses(on: Attacked, call: Method[Any, Any], request: object) -> None:
    before = peak_bytes()
    with pytest.raises(XpsqlError, match=r"^Refused a request: expected "):
        on.connection.call(call, request, SECONDS)
    assert peak_bytes() - before < GIBIBYTE // 8
    assert answers(on)


@pytest.mark.parametrize(
    ("num_keys", "size"), [(0, 2**63 - 1), (40, 2**62 + 8), (3, 2**30), (40, -(2**63)), (40, 39), (40, 165)]
)
def test_a_pull_of_more_rows_than_a_ladder_pads_to_is_refused(attacked: Attacked, num_keys: int, size: int) -> None:
    for padded in (True, False):
        refuses(attacked, PULL, Pull(KEYS[:num_keys], size, padded))


@pytest.mark.parametrize("keys", [KEYS.reshape(5, 8), KEYS[0], np.empty((0, 2**40), np.uint64)])
def test_keys_of_another_number_of_axes_are_refused(attacked: Attacked, keys: Any) -> None:
    refuses(attacked, PULL, Pull(keys, 64, True))
    refuses(attacked, PUSH, attacked.push._replace(touched=attacked.push.touched._replace(keys=keys)))


@given(st.lists(st.integers(0, 100_000) | st.integers(0, 300), max_size=30), st.booleans())
def test_what_a_ladder_pads_to_is_never_refused(numbers: list[int], absent: bool) -> None:
    ladder = Ladder()
    for n in numbers:
        assert n <= ladder.size(n + absent) <= most_padded(n)


NUMBERS = st.sampled_from([-(2**63), -1, 2**32, 2**62, 2**63 - 1])
SHAPES = st.sampled_from([(), (0,), (1,), (39,), (41,), (40, 1), (0, 0), (49, 2), (165, 4), (1, 40), (0, 2**40), (2, 2, 2)])


def arrays_like(array: Any) -> st.SearchStrategy[Any]:
    """Arrays of other shapes."""
    return SHAPES.filter(lambda shape: shape != array.shape).map(lambda shape: np.zeros(shape, array.dtype))


def by_table(arrays: dict[str, Any], needed: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Those with an array of another shape, one too many, and where all are needed one too few."""
    changed = st.sampled_from(sorted(arrays)).flatmap(lambda name: arrays_like(arrays[name]).map(lambda a: {**arrays, name: a}))
    more = st.just({**arrays, "x" * 100: next(iter(arrays.values()))})
    less = st.sampled_from(sorted(arrays)).map(lambda name: {n: a for n, a in arrays.items() if n != name})
    return changed | more | less if needed else changed | more


def changed(push: Push) -> st.SearchStrategy[Push]:
    """Pushes with a field that does not fit."""
    touched, moments = push.touched, push.moments
    arrays = st.sampled_from(["slots", "counts", "clicks"]).flatmap(
        lambda name: arrays_like(getattr(touched, name)).map(lambda array: touched._replace(**{name: array}))
    )
    numbers = st.tuples(st.sampled_from(["time_seconds", "examples", "positives"]), NUMBERS).map(
        lambda pair: touched._replace(**{pair[0]: pair[1]})
    )
    of_batch = st.sampled_from([n for n in BatchId._fields if n != "before"])
    batches = st.tuples(of_batch, NUMBERS).map(
        lambda pair: touched._replace(batch=touched.batch._replace(**{pair[0]: pair[1]}))
    )
    dense = st.sampled_from(sorted(push.dense)).flatmap(
        lambda name: arrays_like(push.dense[name]).map(lambda array: {**push.dense, name: array})
    )
    of_moments = st.sampled_from(moments._fields).flatmap(
        lambda name: arrays_like(getattr(moments, name)).map(lambda array: moments._replace(**{name: array}))
    )
    return st.one_of(
        (arrays | numbers | batches).map(lambda value: push._replace(touched=value)),
        by_table(dict(push.gradients), True).map(lambda value: push._replace(gradients=value)),
        by_table(dict(push.updates), False).map(lambda value: push._replace(updates=value)),
        arrays_like(push.gradients["weights"]).map(lambda array: push._replace(weights={"weights": array})),
        dense.map(lambda value: push._replace(dense=value)),
        of_moments.map(lambda value: push._replace(moments=value)),
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_push_with_any_field_that_does_not_fit_is_refused_and_changes_nothing(
    attacked: Attacked, data: st.DataObject
) -> None:
    refuses(attacked, PUSH, data.draw(changed(attacked.push)))


def test_a_checkpoint_is_written_nowhere_but_under_the_name_of_one(attacked: Attacked) -> None:
    for folder in ("../000001-000001", "/tmp/000001-000001", "", "000001-000001/..", "checkpoint"):
        with pytest.raises(CheckpointError, match="expected the name of a checkpoint"):
            attacked.connection.call(WRITE, Write(folder, True, -1), SECONDS)
    assert answers(attacked)


def test_a_push_that_fits_is_applied_after_all_that() -> None:
    shard = new_shard()
    with Server("the shard", shard_handlers(shard), SECRET, HOST) as server:
        connection = Connection("the shard", server.address, SECRET, ConnectionLimits(), None)
        connection.call(PUSH, pushed(LocalClient([shard]), KEYS, 2), SECONDS)
        connection.close()
    assert len(shard) == 40


def test_a_gang_takes_pushes_of_its_own_workers_alone() -> None:
    gang = Gang(new_shard(), 2, lambda workers, seconds: None)
    push = pushed(LocalClient([new_shard()]), KEYS, 2)
    for worker in (-1, 2, 2**63 - 1):
        with pytest.raises(TrainingError, match="Expected a push of a worker from 0 to 1"):
            gang.push(push._replace(worker=worker))


@pytest.mark.parametrize("size", [2**63 - 1, 2**62 + 8, 2**61])
def test_native_memory_of_more_bytes_than_can_be_addressed_is_an_error(size: int) -> None:
    word, rows, wide = ("word", "float32", []), ("rows", "float32", [4]), ("wide", "float32", [2**20])
    for words, apart in (([word], []), ([], [rows]), ([], [wide])):
        layout = Layout([], words, apart)
        with pytest.raises(ValueError, match="can be addressed"):
            Arguments(layout, size)
    with pytest.raises(ValueError, match="can be addressed"):
        memory(2**63 - 1)
    with pytest.raises(ValueError, match="can be addressed"):
        Layout([], [], [("wider", "float32", [size, 8])])


@pytest.mark.parametrize(
    "request_",
    [
        meeting_point.Join("worker", 2, 0, "h", 1),
        meeting_point.Join("worker", -1, 0, "h", 1),
        meeting_point.Join("shard", 2**62, 0, "h", 1),
        meeting_point.Join("driver", 0, 0, "h", 1),
        meeting_point.Join("worker", 0, -1, "h", 1),
        meeting_point.Ready("shard", 0, 0, Address("h", 2**40)),
        meeting_point.Ready("shard", 0, 0, Address("h", -1)),
    ],
)
def test_a_coordinator_takes_tasks_of_its_job_alone(request_: Any) -> None:
    call: Method[Any, Any] = meeting_point.JOIN if isinstance(request_, meeting_point.Join) else meeting_point.READY
    with Coordinator("m v1", 1, 2, HOST, (), lambda role, number: None, None, None, SocketTransport()) as coordinator:
        connection = Connection("it", coordinator.contact.address, coordinator.contact.secret, ConnectionLimits(), None)
        with pytest.raises(TrainingError, match="Refused a request"):
            connection.call(call, request_, SECONDS)
        assert not coordinator.joined("worker")
        connection.close()


METRICS = Metrics(Targets.of(["label"], "classes", grouped=False).traits)
EMPTY = METRICS.tally()
BINS, COUNTS = np.array([1, 2], np.int32), np.ones((2, 2), np.int64)
SCORES, POSITIVE = np.ones(2, np.float32), np.ones(2, np.bool_)


@pytest.mark.parametrize(
    "tally",
    [
        EMPTY._replace(examples=-1),
        EMPTY._replace(states={}),
        EMPTY._replace(states={**EMPTY.states, "other": ()}),
        *(
            EMPTY._replace(states={**EMPTY.states, name: state})
            for name, state in (
                ("differences", (np.ones(4),)),
                ("differences", (np.ones(5, np.int64),)),
                ("differences", ()),
                ("decisions", (np.ones(4), np.ones(4))),
                ("ranking", (np.array([0, 1 << 16], np.int32), COUNTS)),
                ("ranking", (np.array([-1, 0], np.int32), COUNTS)),
                ("ranking", (BINS, np.ones((2, 3), np.int64))),
                ("ranking", (BINS.reshape(1, 2), COUNTS)),
                ("ranking", (BINS,)),
                ("ranking", (SCORES, POSITIVE[:1])),
                ("ranking", (np.ones((1 << 16) + 1, np.float32), np.ones((1 << 16) + 1, np.bool_))),
            )
        ),
    ],
)
def test_metrics_take_in_nothing_of_a_tally_that_is_none(tally: Tally) -> None:
    with pytest.raises(TrainingError, match="Refused a request"):
        METRICS.take(tally)
    assert METRICS.examples == 0
    assert METRICS.as_dict()["auc"] is None


@pytest.mark.parametrize("batches", [{Turn(0, 2): 1}, {Turn(-1, 0): 1}, {Turn(0, 0): -1}])
def test_a_dealer_knows_the_turns_of_its_training_alone(batches: dict[Turn, int]) -> None:
    with pytest.raises(TrainingError, match="Expected batches of a turn of this training"):
        Dealer(turns_of(2, 1), 1, fixed=False).require(batches)


UNEVEN = KeyedFeatures(KEYS, *NO_FEATURES[1:])
MEETING, COMPANY = SolverRendezvous(2).collective, LearnerRendezvous(2).collective


@pytest.mark.parametrize(
    "reported",
    [
        lambda: MEETING.have(EncodedFeatures(2, NO_FEATURES, NO_MOMENTS)),
        lambda: MEETING.have(EncodedFeatures(0, UNEVEN, NO_MOMENTS)),
        lambda: MEETING.have(EncodedFeatures(0, NO_FEATURES, NO_MOMENTS._replace(mean=np.ones(2)))),
        lambda: MEETING.have(EncodedFeatures(0, NO_FEATURES, NO_MOMENTS, OfferedColumns(KEYS, {"offered": np.zeros((0, 3))}))),
        lambda: MEETING.ask(OrderRequest(-1, -5)),
        lambda: MEETING.found(OrderResult(2, 0.0, NO_NUMBERS, None)),
        lambda: COMPANY.found(LearnedModel(-1, np.empty(0, np.uint8), (EMPTY,))),
    ],
)
def test_what_workers_of_all_examples_tell_must_fit(reported: Callable[[], object]) -> None:
    with pytest.raises(TrainingError, match="Refused a request"):
        reported()

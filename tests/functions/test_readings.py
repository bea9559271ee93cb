"""Readings: the suite over each of them and over some that break a promise, their formulas, and what travels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cases import lengthy
from tests.chaos.proxy import Proxy
from tests.ps.serving import HOST, SECRET, tcp
from xpsql.algorithms.layers.initial import uniform
from xpsql.platform.errors import OptionError, TrainingError
from xpsql.platform.functions import READINGS, reading_promises
from xpsql.platform.functions.base import KeyedReading, RowTable
from xpsql.platform.operators.adagrad import AdagradOptions, adagrad
from xpsql.platform.operators.base import TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.options import Part
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.keyed import FOLD_ROWS, KeyedRequest
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import Push, Touched
from xpsql.platform.ps.remote import RemoteClient
from xpsql.platform.ps.service import shard_handlers
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.transport.server import Server
from xpsql.testing import READING_CHECKS, ReadingTrial

Floats = NDArray[np.float32]
DIM = 64
KEYS = np.random.default_rng(3).integers(0, 2**64, 3000, np.uint64)
TO = np.random.default_rng(4).normal(size=DIM).astype(np.float32)


@pytest.mark.parametrize("check", READING_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", READINGS.names)
def test_a_reading_conforms(name: str, check: Callable[[ReadingTrial], None]) -> None:
    part = READINGS.find(name)
    assert part is not None
    assert part.summary.endswith((".", ";"))
    check(ReadingTrial(part))


def part_of(read: Callable[[Floats, Mapping[str, Floats]], Any]) -> Part[Any, KeyedReading]:
    return Part("made", READINGS.find("dot").options, lambda options, table: KeyedReading(read))  # type: ignore[union-attr]


def centred(weights: Floats, arrays: Mapping[str, Floats]) -> Floats:
    return (weights - weights.mean(0))[:, :1] if len(weights) else weights[:, :1]


def wide(weights: Floats, arrays: Mapping[str, Floats]) -> Floats:
    return weights


def in_place(weights: Floats, arrays: Mapping[str, Floats]) -> Floats:
    weights *= 2
    return weights[:, :1].copy()


@pytest.mark.parametrize(
    ("read", "check"),
    [
        (centred, reading_promises.a_number_depends_on_its_row_alone),
        (centred, reading_promises.nan_stays_in_its_row),
        (wide, reading_promises.numbers_have_their_width_and_type),
        (in_place, reading_promises.rows_and_arrays_stay_as_they_are),
    ],
)
def test_a_reading_that_breaks_a_promise_is_found(read: Any, check: Callable[[ReadingTrial], None]) -> None:
    with pytest.raises(AssertionError):
        check(ReadingTrial(part_of(read)))


def shards(count: int) -> list[Shard]:
    spec = TableSpec("v", DIM, uniform(1.0, DIM))
    programs = Programs(spec, chain(adagrad(AdagradOptions(), spec)), 7)
    made = []
    for number in range(count):
        dense = DenseProgram((), None, 0).part(number, count)
        made.append(Shard(tables_of([programs], Store), dense, str))
    client = LocalClient(made)
    own, n = np.sort(KEYS[:2000]), 2000
    ones = np.ones(n, np.uint32)
    gradients = np.random.default_rng(5).normal(size=(n, DIM)).astype(np.float32)
    client.push(Push(Touched(own, ones.astype(np.uint16), ones, ones * 0, 0), {}, {"v": gradients}))
    return made


def asked(name: str, options: str = "{}", **arrays: Floats) -> KeyedRequest:
    return KeyedRequest(KEYS, "v", name, options, arrays)


def expected(name: str, rows: Floats) -> Floats:
    wide = rows.astype(np.float64)
    return {
        "dot": lambda: wide @ TO,
        "cosine": lambda: wide @ TO / np.linalg.norm(wide, axis=1) / np.linalg.norm(TO.astype(np.float64)),
        "norm": lambda: np.linalg.norm(wide, axis=1),
        "argmax": lambda: np.stack([wide.argmax(1), wide.max(1)], 1),
    }[name]().reshape(len(rows), -1)


@lengthy
@pytest.mark.parametrize("name", READINGS.names)
def test_numbers_are_those_of_the_rows_that_a_pull_brings_on_any_number_of_shards(name: str) -> None:
    arrays = {"to": TO} if name in ("dot", "cosine") else {}
    found = [LocalClient(shards(count)).fold_rows(asked(name, **arrays)) for count in (1, 3)]
    rows = LocalClient(shards(1)).pull(KEYS, len(KEYS)).weights["v"][: len(KEYS)]
    assert np.array_equal(found[0], found[1])
    assert np.allclose(found[0], expected(name, rows), 1e-6)


def test_scalars_travel_in_place_of_rows_and_a_vector_once_for_each_shard() -> None:
    made, bytes_of = shards(2), dict[str, int]()
    with ExitStack() as stack:
        servers = [stack.enter_context(Server("a shard", shard_handlers(one), SECRET, HOST)) for one in made]
        proxies = [stack.enter_context(Proxy(tcp(server.address))) for server in servers]
        client = stack.enter_context(RemoteClient([proxy.address for proxy in proxies], SECRET))
        carried = sum(proxy.carried for proxy in proxies)
        rows = client.pull(KEYS, len(KEYS)).weights["v"][: len(KEYS)]
        bytes_of["pull"] = sum(proxy.carried for proxy in proxies) - carried
        carried = sum(proxy.carried for proxy in proxies)
        found = client.fold_rows(asked("dot", to=TO))
        bytes_of["read"] = sum(proxy.carried for proxy in proxies) - carried
    assert np.allclose(found[:, 0], rows @ TO, 1e-4, 1e-4)
    assert len(KEYS) * (8 + 4) <= bytes_of["read"] <= len(KEYS) * (8 + 4) + 2 * (4 * DIM + 600)
    assert bytes_of["pull"] >= len(KEYS) * (8 + 4 * DIM)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (asked("dto"), "a reading of a table"),
        (asked("dot")._replace(table="w"), "a reading of a table"),
        (asked("dot"), "the arrays of dot"),
        (asked("dot", to=TO[:3]), r"to of dot to be \[64\], got \[3\]"),
        (asked("dot", to=TO)._replace(keys=KEYS[None]), "keys"),
    ],
)
def test_a_read_that_does_not_fit_is_refused_by_the_shard(request_: KeyedRequest, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        LocalClient(shards(1)).fold_rows(request_)


def test_options_that_a_reading_does_not_take_are_told() -> None:
    with pytest.raises(OptionError, match="of"):
        LocalClient(shards(1)).fold_rows(asked("norm", '{"of": "l3"}'))


def test_the_call_has_a_name_that_tables_of_a_service_can_prefix() -> None:
    assert len(f"9999 {FOLD_ROWS.name}") <= 16


def test_a_trial_takes_another_table() -> None:
    part = READINGS.find("dot")
    assert part is not None
    trial = ReadingTrial(part, table=RowTable("v", {"w": 5}))
    assert trial.read(trial.weights).shape == (24, 1)

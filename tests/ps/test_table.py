"""Shards keep rows exactly: pulls create none, counts add up, and dump, load, continue is as if nothing had happened."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cases import costly_after_first
from tests.operators.examples import EXAMPLES
from xpsql.platform.errors import TrainingError
from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.base import Operator, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.decay import DecayOptions, decay
from xpsql.platform.operators.delay_compensation import DelayCompensationOptions, delay_compensation
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.operators.staleness_discount import StalenessDiscountOptions, staleness_discount
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.ladder import rung
from xpsql.platform.ps.compiled.row_programs import RowPrograms
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.dense import DenseProgram
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import Push, Touched
from xpsql.platform.ps.shard import Shard

SPEC = TableSpec("weights", 1)
PLAIN = chain(ftrl(FtrlOptions(), SPEC))
NO_DENSE = DenseProgram((), None, 7).part(0, 1)


def client(num_shards: int, operators: Operator = PLAIN) -> LocalClient:
    programs = [Programs(SPEC, operators, seed=7)]
    return LocalClient([Shard(tables_of(programs, Store), NO_DENSE, lambda number: f"slot{number}") for _ in range(num_shards)])


def rows_with(operators: Operator) -> RowPrograms:
    return RowPrograms([Programs(SPEC, operators, seed=7)])


def random_keys(n: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 2**64, n, np.uint64)


def push(to: LocalClient, keys: NDArray[np.uint64], gradient: float | NDArray[np.float32] = 1.0, time: int = 0) -> None:
    n, size = len(keys), rung(len(keys) + 1)
    gradients = np.zeros((size, 1), np.float32)
    gradients[:n, 0] = gradient
    counts = np.arange(1, n + 1, dtype=np.uint32)
    touched = Touched(keys, np.full(n, 3, np.uint16), counts, counts // 2, time)
    pulled = to.pull(keys, size)
    to.push(Push(touched, pulled.updates, {"weights": gradients}, pulled.weights))


def rows(of: LocalClient) -> dict[int, dict[str, Any]]:
    found = {}
    for shard in of.shards:
        for keys, columns in shard.tables["weights"].dump("weights", shard.now, range(NUM_SLICES)):
            for i, key in enumerate(keys.tolist()):
                found[key] = {name: values[i].tolist() for name, values in columns.items()}
    return found


def reloaded(of: LocalClient, num_shards: int, operators: Operator) -> LocalClient:
    """Dump all rows and load them into new shards."""
    from xpsql.platform.ps.placement import shard_of

    fresh = client(num_shards, operators)
    for shard in of.shards:
        for keys, columns in shard.tables["weights"].dump("weights", shard.now, range(NUM_SLICES)):
            owner = shard_of(keys, num_shards)
            for number, target in enumerate(fresh.shards):
                target.now = shard.now
                mine = owner == number
                part = {name: values[mine] for name, values in columns.items()}
                target.tables["weights"].load("weights", np.ascontiguousarray(keys[mine]), part, shard.now)
    return fresh


def test_a_pull_never_creates_a_row() -> None:
    shards = client(2)
    pulled = shards.pull(random_keys(100, 1), 128)
    assert not pulled.weights["weights"].any()
    assert sum(map(len, shards.shards)) == 0


def test_an_absent_row_reads_as_it_will_start() -> None:
    spec = TableSpec("weights", 1, lambda seed, keys: (keys[:, :1] % 100).astype(np.float32) + seed)
    programs = [Programs(spec, chain(ftrl(FtrlOptions(), spec)), seed=7)]
    shards = LocalClient([Shard(tables_of(programs, Store), NO_DENSE, str)])
    keys = random_keys(20, 9)
    pulled = shards.pull(keys, 64).weights["weights"]
    np.testing.assert_allclose(pulled[:20, 0], (keys.astype(np.uint32) % 100) + 7.0, rtol=1e-5)
    assert not pulled[20:].any()
    push(shards, keys, gradient=0.0)
    np.testing.assert_allclose(shards.pull(keys, 64).weights["weights"], pulled, rtol=1e-5)


def test_counts_clicks_updates_and_slot_are_those_pushed() -> None:
    shards, keys = client(1), random_keys(50, 2)
    push(shards, keys)
    push(shards, keys[10:20])
    found = rows(shards)
    assert len(found) == 50
    for i, key in enumerate(keys.tolist()):
        again = i - 9 if 10 <= i < 20 else 0
        row = found[key]
        assert (row["count"], row["shows"], row["updates"], row["slot"]) == (i + 1 + again, i + 1 + again, 1 + (again > 0), 3)
        assert row["clicks"] == (i + 1) // 2 + again // 2


@pytest.mark.parametrize("num_shards", [2, 3, 7])
def test_any_number_of_shards_gives_the_same_rows(num_shards: int) -> None:
    one, many = client(1), client(num_shards)
    random = np.random.default_rng(3)
    keys = random_keys(300, 4)
    for _ in range(5):
        some = random.choice(keys, 120, replace=False)
        gradient = random.normal(size=120).astype(np.float32)
        for shards in (one, many):
            push(shards, some, gradient)
    assert rows(one) == rows(many)
    pulled = [shards.pull(keys, 320).weights["weights"] for shards in (one, many)]
    np.testing.assert_array_equal(*pulled)


def decayed_chain() -> Operator:
    return chain(decay(DecayOptions(half_life="1 day"), SPEC), ftrl(FtrlOptions(), SPEC))


def with_operator(name: str) -> Operator:
    """Return a chain with an operator under options that do something, or of an optimizer alone."""
    part = next(part for part in OPERATORS if part.name == name)
    operator: Operator = part.make(EXAMPLES.get(name, part.options()), SPEC)
    return chain(operator) if operator.optimizer else chain(operator, ftrl(FtrlOptions(), SPEC))


EACH = [partial(with_operator, part.name) for part in OPERATORS if part.name not in ("admit", "expire")]


@costly_after_first
@pytest.mark.parametrize("make", [lambda: PLAIN, decayed_chain, *EACH], ids=["plain", "decayed", *(m.args[0] for m in EACH)])
def test_dump_load_continue_equals_going_on(make: Callable[[], Operator]) -> None:
    operators, keys = make(), random_keys(200, 5)
    whole = client(1, operators)
    push(whole, keys, time=1_000_000)
    push(whole, keys[:50], -0.5, time=1_040_000)
    split = reloaded(whole, 3, operators)
    for shards in (whole, split):
        push(shards, keys[:100], 0.25, time=1_090_000)
    expected, found = rows(whole), rows(split)
    assert expected.keys() == found.keys()
    for key, row in expected.items():
        for name, value in row.items():
            assert found[key][name] == pytest.approx(value, rel=1e-5), name


def test_staleness_is_what_happened_to_the_row_since_it_was_pulled() -> None:
    options = StalenessDiscountOptions(mode="inverse", rate=1.0)
    shards = client(1, chain(staleness_discount(options, SPEC), ftrl(FtrlOptions(), SPEC)))
    fresh, keys = client(1), random_keys(1, 6)
    for to in (shards, fresh):
        push(to, keys)
    stale = shards.pull(keys, 64).updates
    push(shards, keys)
    push(fresh, keys)
    touched = Touched(keys, np.zeros(1, np.uint16), np.ones(1, np.uint32), np.zeros(1, np.uint32), 0)
    gradients = np.ones((64, 1), np.float32)
    shards.push(Push(touched, stale, {"weights": gradients}))
    fresh.push(Push(touched, fresh.pull(keys, 64).updates, {"weights": gradients / 2}))
    (one,), (two,) = rows(shards).values(), rows(fresh).values()
    assert one["w"] == pytest.approx(two["w"], rel=1e-6)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_delay_compensation_corrects_by_what_happened_to_the_weights_since_they_were_pulled(num_shards: int) -> None:
    options, keys = DelayCompensationOptions(0.5), random_keys(40, 10)
    delayed = client(num_shards, chain(delay_compensation(options, SPEC), ftrl(FtrlOptions(), SPEC)))
    plain = client(num_shards)
    for to in (delayed, plain):
        push(to, keys)
    old = delayed.pull(keys, 64)
    for to in (delayed, plain):
        push(to, keys[:20], 0.3)
    moved = plain.pull(keys, 64).weights["weights"] - old.weights["weights"]
    assert moved[:20].all()
    assert not moved[20:].any()
    gradients = np.full((64, 1), 0.8, np.float32)
    touched = Touched(keys, np.zeros(40, np.uint16), np.ones(40, np.uint32), np.zeros(40, np.uint32), 0)
    delayed.push(Push(touched, old.updates, {"weights": gradients}, old.weights))
    plain.push(Push(touched, old.updates, {"weights": gradients + 0.5 * gradients**2 * moved}))
    found, expected = (to.pull(keys, 64).weights["weights"] for to in (delayed, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_pulled_weights_are_needed_only_where_the_chain_uses_them() -> None:
    compensated = chain(delay_compensation(DelayCompensationOptions(), SPEC), ftrl(FtrlOptions(), SPEC))
    assert rows_with(compensated).needs_pulled
    assert not rows_with(PLAIN).needs_pulled


def test_a_refused_push_stores_nothing_and_names_slot_and_key() -> None:
    options = SafetyOptions(max_gradient=2.0, on_violation="fail")
    shards, keys = client(1, chain(safety(options, SPEC), ftrl(FtrlOptions(), SPEC))), random_keys(10, 7)
    push(shards, keys[:5])
    before = rows(shards)
    gradient = np.ones(10, np.float32)
    gradient[7] = 3.0
    bad = int(keys[7].astype(np.int64))
    with pytest.raises(TrainingError, match=rf"key {bad}, slot slot3"):
        push(shards, keys, gradient)
    assert rows(shards) == before


def test_violations_are_reported() -> None:
    shards = client(1, chain(safety(SafetyOptions(max_gradient=0.5), SPEC), ftrl(FtrlOptions(), SPEC)))
    push(shards, random_keys(9, 8))
    assert shards.shards[0].reports["violations"] == 9


def test_the_ladder_is_short_and_close() -> None:
    sizes: Sequence[int] = sorted({rung(n) for n in range(1, 20_000)})
    assert all(rung(n) >= n for n in range(1, 20_000))
    assert all(b / a <= 1.34 for a, b in itertools.pairwise(sizes))
    assert len(sizes) < 60


def test_only_columns_that_the_chain_uses_are_gathered() -> None:
    plain = rows_with(PLAIN)
    assert plain.pull.needs == {"weights.z", "weights.n", "@rows"}
    assert {"weights.z", "weights.n", "weights.@gradients"} <= plain.push.needs
    assert not plain.push.needs & {"updates", "last_seen", "@seen", "@now", "@counts"}
    timed = rows_with(decayed_chain())
    assert {"last_seen", "@now"} <= timed.push.needs


@pytest.mark.parametrize("num_shards", [1, 2])
def test_weights_that_are_stored_are_pulled_as_they_are(num_shards: int) -> None:
    adagrad = next(part for part in OPERATORS if part.name == "adagrad")
    stored = chain(adagrad.make(adagrad.options(), SPEC))
    assert Programs(SPEC, stored, seed=7).pulls_stored
    for other in (PLAIN, chain(decay(DecayOptions(half_life="1 day"), SPEC), adagrad.make(adagrad.options(), SPEC))):
        assert not Programs(SPEC, other, seed=7).pulls_stored
    shards, keys = client(num_shards, stored), random_keys(90, 3)
    push(shards, keys, np.linspace(-1, 1, 90, dtype=np.float32))
    more = np.concatenate([keys[::-1], random_keys(7, 4)])
    pulled = shards.pull(more, rung(len(more)) + 5).weights["weights"]
    kept = rows(shards)
    assert [row.tolist() for row in pulled[:90]] == [kept[key]["w"] for key in more[:90].tolist()]
    assert pulled[:90].all()
    assert not pulled[90:].any()


def test_a_fold_meets_every_row_once_piece_by_piece() -> None:
    to = client(1)
    keys = random_keys(25, 3)
    push(to, keys)
    table = to.shards[0].first

    def pieces(some: NDArray[np.uint64], rows: NDArray[np.uint32]) -> tuple[int, list[int]]:
        assert len(some) == len(rows) <= 10
        return 1, some.tolist()

    count, met = table.fold(pieces, lambda one, two: (one[0] + two[0], one[1] + two[1]), (0, []), 10)
    assert count == 3
    assert sorted(met) == sorted(keys.tolist())
    assert client(1).shards[0].first.fold(pieces, max, (0, []), 10) == (0, [])

"""Rows that are admitted and expire, against a plain Python model: with CONTINUE, checkpoints and other numbers of shards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.cases import costly_after_first, lengthy
from tests.ps.life_stream import EXAMPLES, SIZE, Batch, Move, Stream, new, push
from tests.ps.plain_life import Event, Plain, PlainRow, drawn, information, utility
from xpsql.platform.operators.base import Operator, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.operators.lifetimes.admit import AdmitOptions, admit
from xpsql.platform.operators.lifetimes.expire import ExpireOptions, expire
from xpsql.platform.operators.lifetimes.recent import RecentOptions, recent
from xpsql.platform.operators.regularize import RegularizeOptions, regularize
from xpsql.platform.operators.safety import SafetyOptions, safety
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.row_programs import RowPrograms
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.keys import NUM_SLICES
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.placement import slices_of

DAY = 86_400
START = 1_700_000_000
SPEC = TableSpec("weights", 1, slots=(("user", 0), ("item", 1), ("price", 2)))
KEYS = [(k * 0x9E3779B97F4A7C15) % 2**64 for k in range(1, 13)]
SEED = 7
STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")


class Life(NamedTuple):
    """Operators and their plain model; bounds are such that float32 and float64 agree on what is beyond them."""

    name: str
    operators: tuple[Operator, ...]
    plain: dict[str, Any]


def by_chance(event: Event, batch: int, probability: float) -> bool:
    return drawn(SEED, event.key, batch) < 1 - (1 - probability) ** event.count


def only_users(event: Event, row: PlainRow, base: float, batch: int) -> bool:
    return event.slot != 0 or row.count >= 4


LIVES = (
    Life(
        "min_count",
        (admit(AdmitOptions(min_count=5), SPEC),),
        {"counting": True, "admits": lambda event, row, base, batch: row.count >= 5},
    ),
    Life(
        "min_count within",
        (admit(AdmitOptions(min_count=5, within="3 days"), SPEC),),
        {"counting": True, "within": 3.0 * DAY, "admits": lambda event, row, base, batch: row.count >= 5},
    ),
    Life(
        "min_count of a slot",
        (admit(AdmitOptions(min_count=4, slots=("user",)), SPEC),),
        {"counting": True, "admits": only_users},
    ),
    Life(
        "admit probability",
        (admit(AdmitOptions(probability=0.4), SPEC),),
        {"admits": lambda event, row, base, batch: by_chance(event, batch, 0.4)},
    ),
    Life(
        "admit utility",
        (admit(AdmitOptions(utility=0.0711), SPEC),),
        {"earns": lambda slot: True, "admits": lambda event, row, base, batch: utility(row, False) > 0.0711},
    ),
    Life(
        "admit information",
        (admit(AdmitOptions(information=0.5173), SPEC),),
        {"earns": lambda slot: True, "admits": lambda event, row, base, batch: information(row, base, False) > 0.5173},
    ),
    Life(
        "expire after",
        (expire(ExpireOptions(after="4 days"), SPEC),),
        {"expires": lambda slot, row, idle, base: idle > 4 * DAY},
    ),
    Life(
        "expire utility",
        (expire(ExpireOptions(utility=0.1313, grace=2), SPEC),),
        {"expires": lambda slot, row, idle, base: row.updates >= 2 and utility(row, False) < 0.1313},
    ),
    Life(
        "expire recent utility of slots",
        (recent(RecentOptions("2 days"), SPEC), expire(ExpireOptions(utility=0.1313, grace=1, slots=("user", "item")), SPEC)),
        {
            "half_life": 2.0 * DAY,
            "expires": lambda slot, row, idle, base: slot < 2 and row.updates >= 1 and utility(row, True) < 0.1313,
        },
    ),
    Life(
        "all",
        (
            recent(RecentOptions("2 days"), SPEC),
            admit(AdmitOptions(min_count=3, within="5 days"), SPEC),
            admit(AdmitOptions(probability=0.7), SPEC),
            admit(AdmitOptions(utility=0.0219, slots=("price",)), SPEC),
            expire(ExpireOptions(after="6 days"), SPEC),
            expire(ExpireOptions(utility=0.0317, grace=3), SPEC),
            expire(ExpireOptions(utility=0.0391, after="3 days", grace=0, slots=("item",)), SPEC),
        ),
        {
            "half_life": 2.0 * DAY,
            "counting": True,
            "within": 5.0 * DAY,
            "earns": lambda slot: slot == 2,
            "admits": lambda event, row, base, batch: (
                row.count >= 3 and by_chance(event, batch, 0.7) and (event.slot != 2 or utility(row, True) > 0.0219)
            ),
            "expires": lambda slot, row, idle, base: (
                idle > 6 * DAY
                or (row.updates >= 3 and utility(row, True) < 0.0317)
                or (slot == 1 and idle > 3 * DAY and utility(row, True) < 0.0391)
            ),
        },
    ),
)
PROGRAMS = {life.name: Programs(SPEC, chain(*life.operators, ftrl(FtrlOptions(), SPEC)), SEED) for life in LIVES}


class Step(NamedTuple):
    """A batch, some hours after the one before it, and what happens before it: Stream's `move` on so many shards."""

    events: list[Event]
    hours: int
    positives: int
    move: Move
    shards: int


MOVES: list[tuple[Move, int]] = [("none", 0)] * 4 + [("checkpoint", 0)] * 2
MOVES += [(move, shards) for move in ("continue", "recover") for shards in (1, 2, 3)]


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    gradients = st.sampled_from([-1.7, -0.53, 0.11, 0.71, 2.3])
    counts = st.tuples(st.integers(1, 3), st.integers(0, 3)).map(lambda pair: (pair[0], min(pair)))
    event = st.builds(lambda k, pair, g: Event(KEYS[k], k % 3, *pair, g), st.integers(0, 11), counts, gradients)
    batches = st.lists(event, min_size=1, max_size=8, unique_by=lambda one: one.key)
    hours, positives, moves = st.sampled_from([0, 1, 7, 30, 100]), st.integers(1, 9), st.sampled_from(MOVES)
    step = st.builds(lambda e, h, n, move: Step(e, h, n, *move), batches, hours, positives, moves)
    return draw(st.lists(step, min_size=1, max_size=12))


def rows_of(client: LocalClient, table: str = "weights") -> dict[int, dict[str, Any]]:
    found = {}
    for number, shard in enumerate(client.shards):
        shard.collect()
        for keys, columns in shard.holding(table).dump(table, shard.now, slices_of(number, len(client.shards))):
            for i, key in enumerate(keys.tolist()):
                found[key] = {name: values[i] for name, values in columns.items()}
    return found


def pulled(client: LocalClient, table: str = "weights") -> NDArray[np.float32]:
    return np.asarray(client.pull(np.array(KEYS, np.uint64), SIZE).weights[table][: len(KEYS)])


@lengthy
@costly_after_first
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.name)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=steps())
def test_rows_live_as_in_the_plain_model(life: Life, stream: list[Step], tmp_path_factory: pytest.TempPathFactory) -> None:
    """With versions that are continued, checkpoints, and shards that are lost, on other numbers of shards, in between."""
    plain, time = Plain(**life.plain), START
    real = Stream([PROGRAMS[life.name]], 2, tmp_path_factory.mktemp("stream"))
    for step in stream:
        real.move(step.move, step.shards)
        time += step.hours * 3600
        number = real.push(Batch(step.events, time, step.positives))
        plain.push(step.events, time, number, EXAMPLES, step.positives)
        living = plain.living()
        expected = [living[key].w if key in living else 0.0 for key in KEYS]
        np.testing.assert_allclose(pulled(real.client)[:, 0], expected, rtol=1e-3, atol=1e-5)
    found, living = rows_of(real.client), plain.living()
    assert found.keys() == living.keys()
    for key, row in living.items():
        assert [int(found[key][name]) for name in STATISTICS] == [getattr(row, name) for name in STATISTICS]
        if "recent_shows" in found[key]:
            faded = [float(found[key][name][0]) for name in ("recent_shows", "recent_clicks")]
            np.testing.assert_allclose(faded, [row.recent_shows, row.recent_clicks], rtol=1e-3, atol=1e-5)


def test_a_draw_is_a_function_of_seed_key_and_batch_and_as_likely_as_said() -> None:
    programs = Programs(SPEC, chain(admit(AdmitOptions(probability=0.25), SPEC), ftrl(FtrlOptions(), SPEC)), seed=7)
    keys = np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64)

    def admitted(num_shards: int, batches: range) -> set[int]:
        client = new([programs], num_shards)
        for batch in batches:
            once, size = np.ones(len(keys), np.uint32), 20_480
            touched = Touched(keys, np.zeros(len(keys), np.uint16), once, once, 0, BatchId(0, 0, 3, batch), 1, 1)
            push_ = Push(touched, {"weights": once}, {"weights": np.ones((size, 1), np.float32)})
            client.push(push_)
        return set(rows_of(client))

    first = admitted(1, range(1))
    assert abs(len(first) / len(keys) - 0.25) < 0.01
    assert admitted(3, range(1)) == first
    assert admitted(2, range(1, 2)) != first
    both = admitted(2, range(2))
    assert first < both
    assert abs(len(both) / len(keys) - (1 - 0.75**2)) < 0.01


def two_tables(own: tuple[Operator, ...], statement: tuple[Operator, ...]) -> list[Programs]:
    second = TableSpec("long", 2, lambda seed, keys: (keys[:, :2] % 7).astype(np.float32) + 1)
    first = Programs(SPEC, chain(*statement, ftrl(FtrlOptions(), SPEC)), seed=7)
    return [first, Programs(second, chain(*own, ftrl(FtrlOptions(), second)), 7, first)]


def test_a_later_table_admits_by_what_the_first_one_knows() -> None:
    client = new(two_tables((admit(AdmitOptions(information=2.0), SPEC),), ()), 2)
    telling, dull = Event(KEYS[0], 0, 3, 3, -0.5), Event(KEYS[1], 1, 3, 1, 0.1)
    for batch in range(4):
        push(client, Batch([telling, dull], START, 3), batch)
    assert rows_of(client).keys() == {KEYS[0], KEYS[1]}
    assert rows_of(client, "long").keys() == {KEYS[0]}
    assert pulled(client, "long")[0].any()
    assert not pulled(client, "long")[1:].any()


def test_a_key_that_the_first_table_refuses_or_ends_has_no_row_in_any() -> None:
    statement = (admit(AdmitOptions(min_count=4), SPEC), expire(ExpireOptions(after="2 days"), SPEC))
    client = new(two_tables((), statement), 3)
    often, rare = Event(KEYS[0], 0, 4, 1, 0.5), Event(KEYS[1], 1, 1, 0, 0.5)
    push(client, Batch([often, rare], START, 1), 0)
    assert rows_of(client, "long").keys() == rows_of(client).keys() == {KEYS[0]}
    push(client, Batch([rare], START + 3 * DAY, 1), 1)
    assert not pulled(client, "long").any()
    push(client, Batch([Event(KEYS[1], 1, 2, 0, 0.5)], START + 3 * DAY, 1), 2)
    assert rows_of(client, "long").keys() == rows_of(client).keys() == {KEYS[1]}


def test_a_row_that_ended_starts_anew_in_every_table() -> None:
    client = new(two_tables((), (expire(ExpireOptions(after="2 days"), SPEC),)), 1)
    event = Event(KEYS[0], 0, 2, 1, 0.5)
    push(client, Batch([event], START, 1), 0)
    once = {name: rows_of(client, name)[KEYS[0]] for name in ("weights", "long")}
    for batch in range(3):
        push(client, Batch([event], START + 10, 1), 1 + batch)
    push(client, Batch([event], START + 5 * DAY, 1), 4)
    for name, before in once.items():
        row = rows_of(client, name)[KEYS[0]]
        assert (row["count"], row["updates"]) == (2, 1)
        np.testing.assert_allclose(row["w"], before["w"], rtol=1e-6)


def test_a_row_that_ended_starts_anew_from_its_initial_values() -> None:
    client = new(two_tables((expire(ExpireOptions(after="2 days"), SPEC),), ()), 1)
    event, other = Event(KEYS[0], 0, 2, 1, 0.5), Event(KEYS[1], 1, 1, 0, 0.5)
    initial = pulled(client, "long")[0]
    assert initial.all()
    push(client, Batch([event], START, 1), 0)
    once = pulled(client, "long")[0]
    push(client, Batch([other], START + 5 * DAY, 1), 1)
    np.testing.assert_array_equal(pulled(client, "long")[0], initial)
    push(client, Batch([event], START + 5 * DAY, 1), 2)
    np.testing.assert_array_equal(pulled(client, "long")[0], once)
    assert rows_of(client, "long")[KEYS[0]]["updates"] == 1
    assert rows_of(client)[KEYS[0]]["updates"] == 2


def test_operators_know_the_occurrences_before_admission() -> None:
    seldom = regularize(RegularizeOptions("l1", strength=0.0, by_frequency=((4, 100.0),)), SPEC)
    programs = Programs(SPEC, chain(admit(AdmitOptions(min_count=5), SPEC), seldom, ftrl(FtrlOptions(), SPEC)), SEED)
    client = new([programs], 1)
    for batch in range(2):
        push(client, Batch([Event(KEYS[0], 0, 3, 1, 0.5)], START, 1), batch)
    row = rows_of(client)[KEYS[0]]
    assert row["count"] == 6
    assert row["w"] != 0


def test_tables_of_the_same_keys_share_rows() -> None:
    admitting, following = two_tables((admit(AdmitOptions(information=2.0), SPEC),), ()), two_tables((), ())
    assert list(new(admitting, 1).shards[0].tables) == ["weights", "long"]
    (table,) = new(following, 1).shards[0].tables.values()
    assert {name for name, *_ in table.store.layout} >= {"weights.z", "weights.n", "long.z", "long.n", "count"}


def test_violations_of_tables_that_share_rows_are_counted_together() -> None:
    strict = (safety(SafetyOptions(max_gradient=0.4), SPEC),)
    for own, statement, expected in (((), strict, 3), (strict, (), 3), (strict, strict, 6)):
        client = new(two_tables(own, statement), 1)
        push(client, Batch([Event(key, 1, 2, 1, 0.5) for key in KEYS[:3]], START, 3), 0)
        assert client.shards[0].reports["violations"] == expected


def test_a_version_may_have_a_feature_in_one_table_alone() -> None:
    """As SHRINK MODEL leaves it; what a table lacks starts as new."""
    before, after = (new(two_tables((), ()), 1) for _ in range(2))
    push(before, Batch([Event(key, 1, 2, 1, 0.5) for key in KEYS[:3]], START, 3), 0)
    (old,), (shard,) = before.shards, after.shards
    for name, kept in (("weights", KEYS[:2]), ("long", KEYS[1:3])):
        for keys, columns in old.holding(name).dump(name, old.now, range(NUM_SLICES)):
            mine = np.isin(keys, np.array(kept, np.uint64))
            shard.holding(name).load(name, keys[mine], {column: v[mine] for column, v in columns.items()}, old.now)
    weights, long = rows_of(after), rows_of(after, "long")
    assert weights.keys() == long.keys() == set(KEYS[:3])
    assert all(int(weights[key]["count"]) == int(long[key]["count"]) == 2 for key in KEYS[:3])
    for name, found, kept in (("weights", weights, KEYS[:2]), ("long", long, KEYS[1:3])):
        expected = rows_of(before, name)
        for key in KEYS[:3]:
            fresh = pulled(new(two_tables((), ()), 1), name)[KEYS.index(key)]
            np.testing.assert_array_equal(found[key]["w"], expected[key]["w"] if key in kept else fresh)


def test_memory_of_rows_that_ended_is_used_again() -> None:
    programs = Programs(SPEC, chain(expire(ExpireOptions(after="1 hour"), SPEC), ftrl(FtrlOptions(), SPEC)), seed=7)
    client = new([programs], 1)
    once, size = np.ones(8192, np.uint32), 8192
    sizes = []
    for batch in range(40):
        keys = np.random.default_rng(batch).integers(0, 2**64, len(once), np.uint64)
        touched = Touched(keys, np.zeros(len(keys), np.uint16), once, once, START + batch * 1800, BatchId(), 1, 1)
        client.push(Push(touched, {"weights": once}, {"weights": np.ones((size, 1), np.float32)}))
        sizes.append(len(client.shards[0]))
    assert max(sizes) < 6 * size  # two or three batches live at a time, and a few wait for the sweep
    assert max(sizes[-5:]) <= max(sizes[:20])


def test_the_range_of_weights_holds_every_weight_and_forgets_old_extremes() -> None:
    programs = Programs(SPEC, chain(ftrl(FtrlOptions(l2=0.0), SPEC)), seed=7)
    client = new([programs], 1)
    shard = client.shards[0]
    push(client, Batch([Event(KEYS[0], 0, 1, 0, -8.0)], 0, 1), 0)
    shard.watch()
    high = float(rows_of(client)[KEYS[0]]["w"][0])
    assert shard.describe().high == pytest.approx(high)
    for batch in range(40):
        push(client, Batch([Event(KEYS[1], 0, 1, 0, 0.5 - batch % 2)], 0, 1), batch)
        weights = [float(row["w"][0]) for row in rows_of(client).values()]
        assert shard.describe().low <= min(weights) + 1e-6
        assert shard.describe().high >= max(weights) - 1e-6
    push(client, Batch([Event(KEYS[0], 0, 1, 0, 8.0)], 0, 1), 99)
    for _ in range(2):
        shard.collect()
    weights = [float(row["w"][0]) for row in rows_of(client).values()]
    assert shard.describe().high == pytest.approx(max(weights), rel=1e-5)


def test_tables_without_lifecycle_know_nothing_of_it() -> None:
    plain = Programs(SPEC, chain(ftrl(FtrlOptions(), SPEC)), seed=7)
    assert not plain.lives
    assert not {"slot", "@base_rate", "@known", "@pass", "count", "shows", "last_seen"} & RowPrograms([plain]).push.needs


def test_occurrences_of_a_candidate_outlive_its_trial() -> None:
    admitting = admit(AdmitOptions(min_count=3, within="5 days"), SPEC), admit(AdmitOptions(utility=0.0219), SPEC)
    ending = expire(ExpireOptions(after="3 days"), SPEC)
    client = new([Programs(SPEC, chain(*admitting, ending, ftrl(FtrlOptions(), SPEC)), SEED)], 1)
    for batch, (count, days) in enumerate(((2, 0), (1, 4))):
        push(client, Batch([Event(KEYS[0], 0, count, 0, -1.7)], START + days * DAY, 1), batch)
    assert {key: row["count"] for key, row in rows_of(client).items()} == {KEYS[0]: 3}

"""A batch that holds once what neighbouring examples have in common says the same of each example, and counts the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xpsql.algorithms.blocks.histories import HISTORIES, Histories
from xpsql.algorithms.chunk import ABSENT, Bag, Chunk, RowRuns
from xpsql.platform.input.batches import Batch, Ladders, batches
from xpsql.platform.input.runs.one_user import UserSlots
from xpsql.platform.ps.compiled.ladder import Ladder
from xpsql.platform.ps.messages import BatchId

CODES = 30
Feature = tuple[Any, ...]


def chunk_of(runs: list[int], seed: int) -> Chunk:
    """Return a chunk whose first two lines, first bag and first histories are the same within runs of these lengths."""
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(runs)), runs)
    rows = len(owner)
    common = random.integers(ABSENT, CODES, (2, len(runs))).astype(np.int32)
    scalar = np.stack([common[0, owner], random.integers(ABSENT, CODES, rows), common[1, owner]]).astype(np.int32)
    bags = (bag(random, len(runs)).take(owner), bag(random, rows))
    keys = np.arange(100, 100 + CODES, dtype=np.uint64)
    numbers = np.zeros((0, rows), np.float32)
    label = random.integers(0, 2, (1, rows)).astype(np.float32)
    nothing = np.empty(0, np.int32)
    ones, seconds, slots = np.ones(rows, np.float32), np.zeros(rows, np.uint32), np.zeros(CODES, np.uint16)
    histories = (sequence(random, len(runs), 2).take(owner), sequence(random, rows, 1))
    return Chunk(keys, slots, scalar, bags, numbers, nothing, nothing, label, ones, seconds).having(HISTORIES, histories)


def sequence(random: np.random.Generator, rows: int, fields: int) -> Histories:
    """Return histories of 0 to 3 elements, some of them NULL in all fields."""
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, 4, rows))]).astype(np.int64)
    codes = random.integers(0, CODES, (fields, int(offsets[-1]))).astype(np.int32)
    codes[:, random.random(codes.shape[1]) < 0.1] = ABSENT
    return Histories(codes, offsets, 3)


def bag(random: np.random.Generator, rows: int) -> Bag:
    lengths = random.integers(0, 4, rows)
    size = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Bag(random.integers(0, CODES, size).astype(np.int32), random.normal(size=size).astype(np.float32), offsets)


def examples_of(batch: Batch) -> list[Counter[Feature]]:
    """Return the features of each example of a batch, padding included: place, slot, key and weight."""
    m = len(batch.keys)
    found: list[Counter[Feature]] = [Counter() for _ in batch.weight]

    def add(example: int, *feature: Any, row: int) -> None:
        if row < m:
            found[example][(*feature, int(batch.keys[row]))] += 1

    group = batch.group
    lines = [False] * len(batch.scalar) if group is None else list(group.lines)
    own = iter(batch.scalar)
    shared = iter(() if group is None else group.scalar)
    for line, common in enumerate(lines):
        rows = next(shared)[group.owner] if common and group is not None else next(own)
        for example, row in enumerate(rows):
            add(example, "line", line, row=row)
    values = zip(*batch.bags, strict=True)
    for row, example, slot, weight in values:
        add(example, "bag", slot, float(weight), row=row)
    for number, (rows, mask, _) in enumerate(batch.block(HISTORIES)):
        owner = np.arange(rows.shape[1]) if group is None or number not in group.histories else group.owner
        for example, of in enumerate(owner.tolist()):
            for place in range(rows.shape[2]):
                found[example]["mask", number, place, bool(mask[of, place])] += 1
                for field in range(len(rows)):
                    add(example, "history", number, field, place, row=rows[field, of, place])
    if group is not None:
        for row, at, slot, weight in zip(*group.values, strict=True):
            for example in np.flatnonzero(group.owner == at):
                add(example, "bag", slot, float(weight), row=row)
    return found


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    batch_size=st.integers(1, 12),
    seed=st.integers(0, 1000),
    bags=st.sampled_from([(), (0,)]),
    lines=st.sampled_from([(True, False, True), (False, False, False), (True, False, False)]),
    histories=st.sampled_from([(), (0,)]),
)
def test_a_compact_batch_holds_what_a_flat_one_does(
    runs: list[int], batch_size: int, seed: int, bags: tuple[int, ...], lines: tuple[bool, ...], histories: tuple[int, ...]
) -> None:
    """RowRuns are cut by the edges of batches, bags are empty, codes are absent, and batches are padded."""
    chunk = chunk_of(runs, seed)
    starts = np.concatenate([[0], np.cumsum(runs)[:-1]]).astype(np.int64)
    compact = chunk._replace(runs=RowRuns(starts, lines, bags, histories))
    ladders = Ladders(Ladder(), Ladder())
    flat, once = (list(batches(one, batch_size, BatchId(), ladders)) for one in (chunk, compact))
    for expected, found in zip(flat, once, strict=True):
        assert examples_of(found) == examples_of(expected)
        counted = [
            dict(zip(one.keys.tolist(), zip(one.counts.tolist(), one.clicks.tolist(), strict=True), strict=True))
            for one in (found, expected)
        ]
        assert counted[0] == counted[1]
        assert found.group is not None
        assert (np.diff(found.group.owner) >= 0).all()
        assert found.group.scalar.shape == (sum(lines), found.group.scalar.shape[1])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(2, 11),
    seed=st.integers(0, 1000),
    lines=st.sampled_from([(True, False, True), (True, False, False), (False, False, False)]),
    bags=st.sampled_from([(), (0,)]),
)
def test_candidates_of_one_user_hold_once_what_they_share(
    rows: int, seed: int, lines: tuple[bool, ...], bags: tuple[int, ...]
) -> None:
    chunk = chunk_of([rows], seed).having(HISTORIES, ())
    (flat,) = batches(chunk, 12, BatchId(), Ladders(Ladder(), Ladder()))
    once = UserSlots(lines, bags, all_bags=False).held_once(flat)
    assert once.group is not None
    assert (once.group.lines, once.group.bags) == (lines, bags)
    assert len(once.scalar) == 3 - sum(lines)
    assert examples_of(once) == examples_of(flat)


def test_candidates_that_differ_in_a_slot_of_the_user_stay_as_they_are() -> None:
    (flat,) = batches(chunk_of([6], 1), 8, BatchId(), Ladders(Ladder(), Ladder()))
    for lines, bags in (((False, True, False), ()), ((True, False, True), (0, 1))):
        assert UserSlots(lines, bags, all_bags=False).held_once(flat) is flat

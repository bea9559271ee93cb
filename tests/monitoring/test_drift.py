"""Measures of drift: what scipy computes, what chance gives, and profiles that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from xpsql.algorithms.blocks.bags import BagRows
from xpsql.platform.input.batches import Batch
from xpsql.platform.ps._native import SlotCounts
from xpsql.platform.training.metrics.profile import SAMPLE, Profile, Profiled, ProfileTally
from xpsql.platform.training.profiles.drift import divergence, drift_of, noise_of, stability
from xpsql.platform.training.profiles.stored import CATEGORY, NUMBER, TOP, SlotProfile, largest, number

ASKED = Profiled((3, 7), 1, True, 1)
NOTHING = BagRows(*(np.empty(0, np.int32) for _ in range(3)), np.empty(0, np.float32))  # type: ignore[arg-type]


def batch_of(seed: int, rows: int = 50) -> tuple[Batch, np.ndarray]:
    """Return a batch of two slots of categories and one of numbers, and its predictions."""
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(0, 1 << 63, 20).astype(np.uint64))
    m = len(keys)
    codes = random.integers(0, m + 1, rows).astype(np.int32)
    batch = Batch(
        rows,
        keys,
        m + 1,
        codes[None],
        NOTHING,
        random.normal(size=(1, rows)).astype(np.float32),
        np.zeros(1, np.int32),
        (random.random((1, rows)) < 0.3).astype(np.float32),
        np.ones(rows, np.float32),
        slots=random.choice([3, 7, 9], m).astype(np.uint16),
        counts=random.integers(1, 9, m).astype(np.uint32),
    )
    return batch, random.random((1, rows)).astype(np.float32)


def profile_of(seeds: list[int]) -> Profile:
    profile = Profile(ASKED)
    for seed in seeds:
        profile.add(*batch_of(seed), number=seed * 1000)
    return profile


def parts(tally: ProfileTally) -> list[Any]:
    return [np.asarray(one) for one in tally]


def test_divergence_is_that_of_scipy() -> None:
    random = np.random.default_rng(1)
    one, other = random.integers(0, 100, 256), random.integers(0, 100, 256)
    expected = scipy.spatial.distance.jensenshannon(one, other, base=2) ** 2
    assert divergence(one, other) == pytest.approx(expected, abs=1e-12)
    assert divergence(one, one) == 0
    assert divergence(np.array([1, 0]), np.array([0, 1])) == 1


def test_the_distance_of_numbers_is_that_of_scipy_in_quartile_ranges() -> None:
    random = np.random.default_rng(2)
    one, other = random.normal(0, 1, 4000).astype(np.float32), random.normal(0.3, 1.2, 4000).astype(np.float32)
    before = number("x", 4000, one, None)
    drift = drift_of(before, number("x", 4000, other, before.edges))
    spread = np.quantile(one, 0.75) - np.quantile(one, 0.25)
    assert drift.wasserstein == pytest.approx(scipy.stats.wasserstein_distance(one, other) / spread, rel=0.05)


def test_stability_is_the_sum_over_buckets() -> None:
    p, q = np.array([10.5, 20.5, 30.5]), np.array([30.5, 20.5, 10.5])
    p, q = p / p.sum(), q / q.sum()
    expected = ((p - q) * np.log(p / q)).sum()
    assert stability(np.array([10, 20, 30, 0]), np.array([30, 20, 10, 0])) == pytest.approx(expected)


@pytest.mark.parametrize(("buckets", "one", "other"), [(256, 5000, 2000), (40, 1000, 1000)])
def test_noise_is_what_samples_of_one_distribution_have(buckets: int, one: int, other: int) -> None:
    random = np.random.default_rng(3)
    shares = random.dirichlet(np.full(buckets, 5.0))
    found = [(random.multinomial(one, shares), random.multinomial(other, shares)) for _ in range(100)]
    measured = np.mean([divergence(*pair) for pair in found])
    assert measured == pytest.approx(np.mean([noise_of(*pair) for pair in found]), rel=0.1)
    assert max(divergence(*pair) - noise_of(*pair) for pair in found) < 0.02


def test_values_that_are_not_among_the_most_frequent_have_no_share_to_compare() -> None:
    keys, rare = np.arange(64, dtype=np.uint64), np.arange(100, 164, dtype=np.uint64)
    sums = np.bincount(np.zeros(1, int), minlength=256) * 6500
    before = SlotProfile("s", CATEGORY, 6500, 0, 6500, buckets=sums, top=(keys, np.full(64, 100)))
    now = SlotProfile("s", CATEGORY, 6500, 0, 6500, buckets=sums, top=(np.r_[keys[:63], rare[:1]], np.r_[np.full(63, 90), 800]))
    first = drift_of(before, now).changes[0]
    assert (first.key, first.before, first.now) == (100, None, pytest.approx(800 / 6500))


@given(st.lists(st.integers(0, 200), min_size=1, max_size=8, unique=True), st.randoms())
def test_profiles_of_parts_are_the_profile_of_the_whole(seeds: list[int], random: Any) -> None:
    whole, cut = profile_of(seeds), random.randrange(len(seeds) + 1)
    shuffled = list(seeds)
    random.shuffle(shuffled)
    merged = profile_of(shuffled[:cut])
    merged.take(profile_of(shuffled[cut:]).tally())
    for one, other in zip(parts(whole.tally()), parts(merged.tally()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_profile_counts_what_batches_have() -> None:
    batch, predictions = batch_of(5)
    profile = Profile(ASKED)
    profile.add(batch, predictions, 0)
    tally = profile.tally()
    assert tally.buckets.sum(axis=1).tolist() == [int(batch.counts[batch.slots == slot].sum()) for slot in (3, 7)]
    assert tally.counts.sum() == tally.buckets.sum()
    assert (np.diff(tally.places) >= 0).all()
    first = tally.keys[tally.places == 0]
    assert first.tolist() == sorted(batch.keys[batch.slots == 3].tolist())
    assert tally.predictions.sum() == batch.examples
    assert tally.sample.shape == (1, batch.examples)


def test_numbers_are_a_sample_of_all_rows_however_many() -> None:
    profile = Profile(ASKED)
    for seed in range(30):
        batch, predictions = batch_of(seed, 1000)
        profile.add(batch._replace(dense=np.full((1, 1000), seed, np.float32)), predictions, seed * 1000)
    counts = np.bincount(profile.tally().sample[0].astype(int), minlength=30)
    assert counts.sum() == SAMPLE
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_a_number_that_never_came_drifts_by_nobody_knows() -> None:
    nothing = number("x", 10, np.full(10, np.nan, np.float32), None)
    assert (nothing.kind, nothing.nulls, drift_of(nothing, nothing).drift) == (NUMBER, 10, None)


def test_beyond_so_many_keys_the_rarest_are_forgotten_and_buckets_stay_exact() -> None:
    keys = np.arange(1, 1001, dtype=np.uint64) << np.uint64(50)
    slots, counts = np.full(1000, 3, np.uint16), np.arange(1, 1001, dtype=np.uint32)
    found = SlotCounts(np.array([3], np.uint16), 600)
    found.add(keys, slots, counts)
    buckets, kept, _, how_often = found.tally()
    assert buckets.sum() == counts.sum()
    assert 300 <= len(kept) <= 600
    assert (
        dict(zip(kept.tolist(), how_often.tolist(), strict=True)).items()
        <= dict(zip(keys.tolist(), counts.tolist(), strict=True)).items()
    )
    assert keys[-1] in kept
    other = SlotCounts(np.array([3], np.uint16), 600)
    other.merge(buckets.reshape(1, -1), *found.tally()[1:])
    for one, two in zip(found.tally(), other.tally(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_most_frequent_are_those_of_a_whole_sort() -> None:
    random = np.random.default_rng(4)
    for size in (0, 5, 64, 65, 500):
        counts = random.integers(1, 9, size)
        np.testing.assert_array_equal(largest(counts), np.argsort(-counts, kind="stable")[:TOP])

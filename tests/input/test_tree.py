"""Trees of items: every item has a leaf of its own, alike ones stand together, and what is new goes beside its like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.algorithms.chunk import joined
from xpsql.platform.trees.tree import Tree, by_category, by_vectors, grown, node_keys, planted, replanted


def keys_of(numbers: list[int]) -> np.ndarray:
    return np.sort(np.random.default_rng(7).permutation(1 << 16)[numbers].astype(np.uint64) << np.uint64(48))


def check(tree: Tree) -> None:
    assert len(np.unique(tree.places)) == len(tree.keys)
    assert ((tree.places >= 0) & (tree.places < 2**tree.depth)).all()
    np.testing.assert_array_equal(np.sort(tree.keys), tree.keys)
    np.testing.assert_array_equal(tree.find(tree.keys), tree.places)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.lists(st.integers(0, 6), max_size=80))
def test_a_tree_grows_without_moving_what_it_has(first: list[int], later: list[int]) -> None:
    every = keys_of(list(range(len(first) + len(later))))
    mixed = np.random.default_rng(len(first)).permutation(len(every))
    old, new = np.sort(every[mixed[: len(first)]]), np.sort(every[mixed[len(first) :]])
    of_old, of_new = np.array(first, np.uint64) + np.uint64(1), np.array(later, np.uint64) + np.uint64(1)
    tree = planted(old, of_old, by_category(old, of_old))
    check(tree)
    bigger = grown(tree, new, of_new)
    check(bigger)
    assert len(bigger.keys) == len(every)
    np.testing.assert_array_equal(bigger.find(old) >> (bigger.depth - tree.depth), tree.places)
    assert (tree.find(new) == -1).all()


def test_items_of_a_category_stand_side_by_side_and_new_ones_beside_them() -> None:
    keys, category = keys_of(list(range(300))), np.random.default_rng(0).integers(1, 7, 300).astype(np.uint64)
    tree = planted(keys, category, by_category(keys, category))
    assert np.count_nonzero(np.diff(category[np.argsort(tree.places)])) == 5
    new, of_new = keys_of(list(range(300, 330))), np.full(30, 3, np.uint64)
    bigger = grown(tree, new, of_new)
    own = tree.places[category == 3]
    assert (np.abs(bigger.find(new) - np.median(own)) < 150).all()


def test_the_tree_by_vectors_divides_by_what_is_alike() -> None:
    random, which = np.random.default_rng(0), np.repeat(np.arange(8), 50)
    vectors = (np.eye(8)[which] * 10 + random.normal(size=(400, 8))).astype(np.float32)
    mixed = random.permutation(400)
    order = by_vectors(vectors[mixed])
    assert sorted(order.tolist()) == list(range(400))
    assert np.count_nonzero(np.diff(which[mixed][order])) <= 60  # at random some 350


def test_ancestors_are_those_of_a_heap() -> None:
    tree = Tree(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64), 4)
    code, found = 5 + 2**4 - 1, []
    while code:
        code = (code - 1) // 2
        found.append(code)
    assert tree.ancestors(np.array([5])).tolist() == [found[-2::-1]]


@given(st.lists(st.integers(0, 50), max_size=20), st.lists(st.integers(0, 50), max_size=20))
def test_joined_keys_keep_the_places_of_the_first(first: list[int], more: list[int]) -> None:
    own = np.unique(np.array(first, np.uint64))[::-1]
    keys, codes = joined(own, np.array(more, np.uint64))
    np.testing.assert_array_equal(keys[: len(own)], own)
    assert len(np.unique(keys)) == len(keys)
    np.testing.assert_array_equal(keys[codes], np.array(more, np.uint64))


@pytest.mark.parametrize("items", [1, 2, 3])
def test_few_items_make_a_tree(items: int) -> None:
    keys = keys_of(list(range(items)))
    check(planted(keys, np.zeros(items, np.uint64), by_category(keys, np.zeros(items, np.uint64))))


def test_a_tree_made_anew_has_alike_items_together_and_nodes_begin_with_their_mean() -> None:
    random = np.random.default_rng(2)
    keys = np.sort(random.integers(1, 2**63, 32).astype(np.uint64))
    group = np.arange(32) % 2
    vectors = (np.where(group, 1, -1)[:, None] * np.ones(4) + random.normal(size=(32, 4)) / 9).astype(np.float32)
    categories = group.astype(np.uint64)
    vectors[5] = 0  # not learned yet: stands with its category
    tree = replanted(planted(keys, np.zeros(32, np.uint64), np.arange(32))._replace(categories=categories), "vectors", vectors)
    half = tree.places >> (tree.depth - 1)
    assert len({tuple(half[group == one]) for one in (0, 1)}) == 2
    assert all(len(set(half[group == one])) == 1 for one in (0, 1))
    assert tree.nodes is not None
    found = dict(zip(tree.nodes.keys.tolist(), tree.nodes.vectors, strict=True))
    assert found.keys() == set(node_keys(np.unique(tree.ancestors(tree.places))).tolist())
    whole = vectors.copy()
    whole[5] = vectors[(group == 1) & (np.arange(32) != 5)].mean(axis=0)
    top = int(node_keys(np.array([1]))[0])
    np.testing.assert_allclose(found[top], whole[half == 0].mean(axis=0), rtol=1e-4)

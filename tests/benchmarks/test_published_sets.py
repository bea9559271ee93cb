"""Published sets are rebuilt from their sources, and models of ours are learned and judged as they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import frappe, frappe_peer, gowalla
from benchmarks.frappe import MD5, PARTS, as_csv, checked, remade
from tests.cases import costly_after_first, lengthy

REST = (5039, 5046, 5053, 5055, 5058, 5060, 5069, 5149)


def test_what_no_other_part_has_is_learned_from_with_two_negatives_for_each_use() -> None:
    random = np.random.default_rng(1)
    uses = [(int(user), 957 + int(item), *REST) for user, item in zip(random.integers(0, 9, 90), random.integers(0, 30, 90))]  # noqa: B905
    known = [(1, *use) for use in uses[:20]] + [(0, use[0], 2000, *REST) for use in uses[:20]]
    rows = remade(uses, known, 1)
    assert Counter(row[1:] for row in rows if row[0]) == Counter(uses[20:])
    negatives = [row for row in rows if not row[0]]
    assert Counter(row[1] for row in known + rows if not row[0]) == {
        user: 2 * n for user, n in Counter(use[0] for use in uses).items()
    }
    assert not {row[1:] for row in negatives} & set(uses)
    assert rows == remade(uses, known, 1)
    assert rows != remade(uses, known, 2)


def test_rows_of_other_sources_are_refused() -> None:
    with pytest.raises(SystemExit, match="not among those"):
        remade([(1, 957, *REST)], [(1, 2, 957, *REST)], 1)
    with pytest.raises(SystemExit, match=r"valid\.csv of frappe has MD5 [0-9a-f]{32}, the published file 88d51bf"):
        checked(as_csv([(1, 1, 957, *REST)]), "frappe", MD5["frappe"][1])


@lengthy
@costly_after_first
@pytest.mark.parametrize("model", ["xftrl", "final"])
def test_a_model_is_judged_by_rows_that_it_neither_learned_nor_chose_passes_by(tmp_path: Path, model: str) -> None:
    random = np.random.default_rng(2)
    for part, rows in zip(PARTS, (3000, 500, 500), strict=True):
        user, item = random.integers(0, 20, rows), random.integers(0, 20, rows)
        columns = {"label": (user + item) % 2, "user": user.astype(str), "item": item.astype(str)}
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    (auc, logloss, passes), scored = frappe.learned(str(tmp_path), "frappe", model, 1)
    assert 0 <= auc <= 1
    assert logloss > 0
    assert passes >= 1
    assert len(scored) == 500


def test_a_model_that_orders_better_gains_on_all_draws_and_one_that_is_the_same_on_none() -> None:
    random = np.random.default_rng(3)
    label = random.integers(0, 2, 2000)
    better, worse = label + random.normal(0, 1, 2000), label + random.normal(0, 3, 2000)
    assert frappe_peer.lowest_gain(label, better, better) == 0
    assert frappe_peer.lowest_gain(label, better, worse) > 0.05
    order = np.argsort(better)
    assert frappe_peer.auc(label[order], np.ones(2000, np.int64)) == pytest.approx(
        np.mean(better[label == 1][:, None] > better[label == 0])
    )


def test_values_that_the_rows_learned_from_lack_are_one_number(tmp_path: Path) -> None:
    for part, users in (("train", ["a", "b", "a"]), ("test", ["b", "c", "d"])):
        pq.write_table(pa.table({"label": [0, 1, 0], "user": users}), tmp_path / f"{part}.parquet")
    (train, test), sizes = frappe_peer.coded(tmp_path, ("train", "test"))
    assert (train["user"].tolist(), test["user"].tolist(), sizes) == ([1, 2, 1], [2, 3, 3], {"user": 4})


def test_others_of_a_user_are_all_but_the_item_itself_and_no_more_than_asked() -> None:
    random = np.random.default_rng(4)
    items = np.array([5, 7, 9], np.int32)
    assert gowalla.others_of(items, 9, random).tolist() == [[7, 9], [5, 9], [5, 7]]
    few = gowalla.others_of(items, 1, random)
    assert few.shape == (3, 1)
    assert (few[:, 0] != items).all()


def test_a_users_recall_is_the_share_of_its_own_items() -> None:
    assert gowalla.recall([[0, 1], [0, 5], [1, 7]], {0: [1, 2], 1: [7]}) == pytest.approx(0.75)


def test_another_split_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 1 2\n")
    (tmp_path / "test.txt").write_text("0 3\n")
    with pytest.raises(SystemExit, match="29858 users"):
        gowalla.write_rows(tmp_path, tmp_path)

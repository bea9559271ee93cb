"""Defaults that follow a model's slots: what they are, where they show, and that pairs are learned from short logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly_after_first
from xpsql.algorithms.inputs import Layout
from xpsql.algorithms.linear.ffm import FfmOptions
from xpsql.algorithms.linear.fm import FmOptions
from xpsql.algorithms.linear.xftrl import XftrlOptions
from xpsql.platform.progress import SilentReporter

MANY = Layout(tuple(map(str, range(40))))


def test_the_rate_of_weights_is_inverse_to_the_slots_and_to_the_curvature_of_the_loss() -> None:
    assert XftrlOptions().adapted(MANY).alpha == 0.1
    assert XftrlOptions(loss="squared").adapted(MANY).alpha == 0.025
    assert XftrlOptions().adapted(Layout(("a",))).alpha == 2
    assert XftrlOptions(alpha=0.3).adapted(MANY).alpha == 0.3


def test_elements_of_dense_vectors_count_and_what_operators_offer_does_not() -> None:
    assert Layout(("a", "b"), ("c",), ("d:ctr", "e"), (("f", 16),), offered=1).active == 20


def test_an_array_counts_as_six_slots() -> None:
    some = Layout(("a", "b"), ("tags",))
    assert (XftrlOptions().adapted(some).alpha, FmOptions().adapted(some).vector_alpha) == (0.5, 0.1414)


def test_vectors_of_many_slots_begin_smaller_and_learn_slower() -> None:
    few, many = FmOptions().adapted(Layout(("a", "b"))), FmOptions().adapted(MANY)
    assert (many.vector_alpha, many.init_scale) == (0.0632, 0.0095)
    assert (few.vector_alpha, few.init_scale) == (0.2828, 0.0424)
    rates = [FfmOptions().adapted(layout).vector_alpha for layout in (Layout(("a", "b")), Layout(tuple("abcdef")), MANY)]
    assert rates == [0.4, 0.1333, 0.0395]
    assert FfmOptions(vector_alpha=0.2).adapted(MANY).vector_alpha == 0.2


def rows(session: xpsql.Session, query: str) -> list[dict[str, object]]:
    return session.sql(query).arrow().to_pylist()


def pairs_log(folder: Path, number: int) -> str:
    """Write a log whose label depends on user and item together alone; who knew how would reach an AUC of 0.86."""
    generator = np.random.default_rng(1)
    users, items = generator.normal(size=(200, 3)), generator.normal(size=(100, 3))
    user, item = generator.integers(0, 200, number), generator.integers(0, 100, number)
    chance = 1 / (1 + np.exp(-1.4 * (users[user] * items[item]).sum(axis=1)))
    label = (generator.random(number) < chance).astype(np.int8)
    table = pa.table({"user": user, "item": item, "label": label, "number": np.arange(number)})
    pq.write_table(table, folder / "log.parquet")
    return f"parquet.`{folder / 'log.parquet'}`"


@costly_after_first
@pytest.mark.parametrize(("algorithm", "least", "vectors"), [("fm", 0.80, "0.2828"), ("ffm", 0.80, "0.4"), ("xnn", 0.74, "")])
def test_pairs_are_learned_from_a_short_log_and_a_version_tells_its_rates(
    tmp_path: Path, algorithm: str, least: float, vectors: str
) -> None:
    log = pairs_log(tmp_path, 40_000)
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT user, item, label FROM {log} WHERE number < 30000")
        (row,) = rows(session, f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT * FROM {log} WHERE number >= 30000))")
        assert row["auc"] > least
        if algorithm != "xnn":
            reported = rows(session, "SELECT option, value, given FROM ML.OPTIONS(MODEL m) WHERE option LIKE '%alpha'")
            assert reported == [
                {"option": "alpha", "value": "2.0", "given": False},
                {"option": "vector_alpha", "value": vectors, "given": False},
            ]

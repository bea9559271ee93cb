"""The defaults of networks over histories find an interest that no sum of slots tells."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import xpsql
from tests.algorithms.interests import HISTORY, SHARED, interests
from tests.cases import lengthy
from xpsql.algorithms.base import Layout
from xpsql.algorithms.networks.din import DinOptions
from xpsql.platform.progress import SilentReporter

COLUMNS = "label, user, item, category, clicked_items, clicked_categories"


@lengthy
def test_din_finds_a_planted_interest_by_its_defaults(tmp_path: Path) -> None:
    for name, rows, seed in (("train", 50_000, 0), ("test", 5_000, 1)):
        pq.write_table(interests(rows, seed), tmp_path / f"{name}.parquet")
    train, test = (f"(SELECT {COLUMNS} FROM parquet.`{tmp_path / name}.parquet`)" for name in ("train", "test"))
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING din ({HISTORY}) WITH ({SHARED}, workers = 1) AS SELECT * FROM {train}")
        ((auc,),) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, {test})").fetchall()
    assert auc > 0.75  # 0.5 at the rates of networks without histories; the interest itself has 0.82


def test_rates_and_starts_fall_with_the_slots_and_what_is_given_stays() -> None:
    few, many = (Layout(scalar=tuple(f"s{i}" for i in range(slots))) for slots in (3, 48))
    assert [DinOptions().adapted(few).vector_learning_rate, DinOptions().adapted(many).vector_learning_rate] == [0.1, 0.0289]
    assert [DinOptions().adapted(few).init_scale, DinOptions().adapted(many).init_scale] == [0.0346, 0.0087]
    assert DinOptions(vector_learning_rate=0.3).adapted(few).vector_learning_rate == 0.3

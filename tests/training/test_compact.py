"""What neighbouring rows have in common is computed once, and a model learns the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.algorithms.uses import rows
from tests.cases import costly, lengthy, quick
from xpsql.platform.progress import SilentReporter

USERS, EACH = 150, 20

ALGORITHMS = {
    "xftrl": "",
    "xnn": "(dim = 4, hidden = (8), pooling = mean)",
    "wide_deep": "(user = (user, city, clicked), user_tower = (8, 4), item_tower = (6), dim = 4, hidden = (8))",
    "din": "(target = (item), history = (clicked), dim = 4, hidden = (8), attention = (8))",
    "dien": "(target = (item), history = (clicked), dim = 4, hidden = (8), attention = (8))",
}


def log(seed: int, shuffled: bool = False) -> pa.Table:
    """Return impressions, a user's one after the other; clicks depend on user and item."""
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(USERS), EACH)
    clicked = [[f"i{item}" for item in random.integers(0, 40, random.integers(0, 9))] for _ in range(USERS)]
    item = random.integers(0, 40, len(owner))
    signal = random.normal(size=USERS)[owner] + np.sin(item)
    table = pa.table(
        {
            "label": (random.random(len(owner)) < 1 / (1 + np.exp(-signal))).astype(np.int32),
            "user": pa.array([f"u{user}" for user in owner], mask=owner % 7 == 3),
            "item": pa.array([f"i{one}" for one in item]),
            "city": pa.array(owner % 11),
            "age": pa.array((owner % 50).astype(np.float64)),
            "clicked": pa.array([clicked[user] for user in owner]),
        }
    )
    return table.take(random.permutation(len(owner))) if shuffled else table


@pytest.fixture
def session(tmp_path: Path) -> xpsql.Session:
    pq.write_table(log(1), tmp_path / "log.parquet", row_group_size=1700)
    return xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter())


def train(session: xpsql.Session, model: str, algorithm: str, path: Path, settings: str, clauses: str = "") -> None:
    session.sql(
        f"TRAIN MODEL {model} USING {algorithm} {ALGORITHMS[algorithm]} {clauses} "
        f"WITH (workers = 1, batch_size = 64, {settings}) AS SELECT * FROM parquet.`{path / 'log.parquet'}`"
    )


def predictions(session: xpsql.Session, model: str, path: Path) -> np.ndarray[Any, Any]:
    query = f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, (SELECT * FROM parquet.`{path / 'log.parquet'}`))"
    found: np.ndarray[Any, Any] = session.sql(query).arrow()["predicted_label"].to_numpy()
    return found


@lengthy
@pytest.mark.parametrize("algorithm", quick(ALGORITHMS, ("xftrl", "din")))
def test_a_model_learns_and_predicts_the_same(session: xpsql.Session, tmp_path: Path, algorithm: str) -> None:
    for model, compact in (("once", "auto"), ("each", "off")):
        train(session, model, algorithm, tmp_path, f"compact = '{compact}'")
    (counted, weights), (expected, flat) = rows(session, "once"), rows(session, "each")
    assert counted == expected
    np.testing.assert_allclose(weights, flat, 1e-4, 1e-5)
    assert (weights != flat).any(), "sums are as of a flat log: nothing was computed once"
    once, each = (session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL {m})").fetchall()[0][0] for m in ("once", "each"))
    assert once == pytest.approx(each, abs=1e-5)
    np.testing.assert_allclose(*(predictions(session, model, tmp_path) for model in ("once", "each")), 1e-4, 1e-5)


@costly
def test_auto_session_counts_every_row(session: xpsql.Session, tmp_path: Path) -> None:
    for model, compact in (("once", "auto"), ("each", "off")):
        train(session, model, "xftrl", tmp_path, f"compact = '{compact}'", "OPERATORS (auto_session)")
    (counted, weights), (expected, flat) = rows(session, "once"), rows(session, "each")
    assert counted == expected
    np.testing.assert_allclose(weights, flat, 1e-4, 1e-5)


@costly
def test_a_plan_tells_what_is_computed_once(session: xpsql.Session, tmp_path: Path) -> None:
    few = "; 3 groups a batch, and a model learns less of so few than of shuffled rows: sort by request, or raise batch_size"
    assert plan(session, tmp_path, "batch_size = 64") == f"3 of 5 slots, 20 rows a group{few}"
    assert plan(session, tmp_path, "batch_size = 400") == "3 of 5 slots, 20 rows a group"
    assert plan(session, tmp_path, "compact = 'off'") is None
    assert "windows are not those of a log by time" in plan(
        session, tmp_path, "seed = 1", "EVALUATE EVERY 4 BATCHES ON 1 BATCHES"
    )


@costly
def test_a_plan_tells_whether_the_users_tower_is_computed_once(session: xpsql.Session, tmp_path: Path) -> None:
    for slots, tower in (("clicked, city", "once a group"), ("user, item", "for each row, as rows of a group differ in item")):
        network = f"xnn (user = ({slots}), user_tower = (8))"
        found = plan(session, tmp_path, "batch_size = 400", algorithm=network)
        assert found == f"3 of 5 slots, 20 rows a group; tower of the user {tower}"


def test_a_plan_of_a_shuffled_log_tells_of_nothing(session: xpsql.Session, tmp_path: Path) -> None:
    pq.write_table(log(1, shuffled=True), tmp_path / "log.parquet")
    assert plan(session, tmp_path, "compact = 'auto'") is None
    assert plan(session, tmp_path, "compact = 'auto'", "IGNORE (age, clicked)") is None, "the intercept alone is in common"


def plan(session: xpsql.Session, path: Path, settings: str, clauses: str = "", algorithm: str = "xftrl") -> str | None:
    found = session.sql(
        f"EXPLAIN TRAIN MODEL m USING {algorithm} {clauses} WITH ({settings}) AS SELECT * FROM parquet.`{path / 'log.parquet'}`"
    )
    return {row["property"]: row["value"] for row in found.arrow().to_pylist()}.get("compact")

"""Data with planted interactions tells algorithms apart, where published logs give all of them the same metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly_after_first
from tests.training.log import write
from xpsql.platform.progress import SilentReporter

ROWS, TESTED, VALUES = 20_000, 5_000, 12
LABELS = ("pair", "fields", "triple")


def planted() -> pa.Table:
    """Make examples of three columns, whose labels need: one pair that two elements explain; three pairs that contradict each
    other within one vector of a value; all three columns at once, none of whose pairs tells anything."""
    random, effects, n = np.random.default_rng(3), np.random.default_rng(1), ROWS + TESTED
    a, b, c = (random.integers(0, VALUES, n) for _ in range(3))
    ab, ac, bc = (effects.choice([-1.0, 1.0], (VALUES, VALUES)) for _ in range(3))
    of_a, of_b = effects.normal(size=(VALUES, 2)), effects.normal(size=(VALUES, 2))
    scores = {
        "pair": 2 * (of_a[a] * of_b[b]).sum(axis=1),
        "fields": 1.5 * (ab[a, b] + ac[a, c] + bc[b, c]),
        "triple": 3.0 * (2 * ((a + b + c) % 2) - 1),
    }
    labels = {name: (random.random(n) < 1 / (1 + np.exp(-score))).astype(np.int32) for name, score in scores.items()}
    return pa.table(
        labels | {name: [f"{name}{value}" for value in values] for name, values in zip("abc", (a, b, c), strict=True)}
    )


def auc_of(session: xpsql.Session, folder: Path, algorithm: str, label: str) -> float:
    """Return the test AUC of an algorithm after one pass over a label."""
    train, test = (f"parquet.`{folder / name}.parquet`" for name in ("train", "test"))
    ignored = ", ".join(name for name in LABELS if name != label)
    statement = f"LABEL {label} IGNORE ({ignored}) WITH (workers = 1) AS SELECT * FROM {train}"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {algorithm} {statement}")
    ((auc,),) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, TABLE {test})").fetchall()
    return float(auc)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[xpsql.Session, Path]]:
    folder, table = tmp_path_factory.mktemp("planted"), planted()
    write(table.slice(0, ROWS), folder / "train.parquet", ROWS)
    write(table.slice(ROWS), folder / "test.parquet", TESTED)
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        yield session, folder


@costly_after_first
@pytest.mark.parametrize(
    ("label", "better", "worse", "margin"),
    [
        ("pair", ("fm", "ffm", "xnn"), ("xftrl",), 0.1),
        ("fields", ("ffm (dim = 2)",), ("fm (dim = 2)",), 0.02),
        ("fields", ("fm", "ffm"), ("xnn",), 0.03),
        ("triple", ("xnn", "deepfm", "dcn", "wide_deep"), ("fm", "ffm", "xftrl"), 0.4),
    ],
)
def test_algorithms_learn_the_interactions_that_they_are_made_for_and_no_others(
    log: tuple[xpsql.Session, Path], label: str, better: tuple[str, ...], worse: tuple[str, ...], margin: float
) -> None:
    session, folder = log
    high, low = ({name: auc_of(session, folder, name, label) for name in names} for names in (better, worse))
    assert min(high.values()) >= max(low.values()) + margin, (high, low)

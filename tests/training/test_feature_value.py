"""Utility and information: ML.WEIGHTS shows the numbers of their definition, and operators decide by the same."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.ps.plain_life import ALPHA, PlainRow
from tests.ps.plain_life import information as plain_information
from tests.ps.plain_life import utility as plain_utility
from tests.training.log import log, write
from xpsql.platform.operators.lifetimes.slots import utility_of
from xpsql.platform.training.row_files.columns import values

ROWS, BATCH = 2000, 100
HALF_LIFE = 600.0
RECENT = "recent (half_life = '10 minutes')"
QUERY = "SELECT label, ts, user, item FROM parquet.`{}`"
KEYS = """SELECT label, unix_timestamp(ts) AS at, feature_key('user', user) AS user, feature_key('item', item) AS item
FROM parquet.`{}`"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(ROWS), tmp_path / "log.parquet", row_group_rows=ROWS)


def train(session: xpsql.Session, path: Path, operators: str, batch_size: int) -> None:
    listed = f"OPERATORS ({operators})" if operators else ""
    settings = f"WITH (batch_size = {batch_size}, workers = 1)"
    session.sql(f"TRAIN OR REPLACE MODEL m USING xftrl TIME ts {listed} {settings} AS {QUERY.format(path)}")


def weights(session: xpsql.Session, version: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the rows of ML.WEIGHTS by key, without the intercept's."""
    which = "" if version is None else f" VERSION {version}"
    rows = session.sql(f"SELECT * FROM ML.WEIGHTS(MODEL m{which}) WHERE slot <> '(intercept)'").arrow().to_pylist()
    return {row["key"]: row for row in rows}


def counted(session: xpsql.Session, path: Path) -> dict[int, PlainRow]:
    """Count shows and clicks, ever and of late, of every key of the log, one example at a time."""
    rows, newest = {}, 0
    examples = session.sql(KEYS.format(path)).arrow().to_pylist()
    for start in range(0, len(examples), BATCH):
        batch = examples[start : start + BATCH]
        passed, newest = max(e["at"] for e in batch) - newest, max(e["at"] for e in batch)
        for row in rows.values():
            row.recent_shows *= 0.5 ** (passed / HALF_LIFE)
            row.recent_clicks *= 0.5 ** (passed / HALF_LIFE)
        for example in batch:
            for slot in ("user", "item"):
                row = rows.setdefault(example[slot], PlainRow())
                row.shows, row.clicks = row.shows + 1, row.clicks + example["label"]
                row.recent_shows, row.recent_clicks = row.recent_shows + 1, row.recent_clicks + example["label"]
    return rows


@pytest.mark.parametrize("recent", [False, True])
def test_ml_weights_shows_the_utility_and_information_of_their_definition(
    session: xpsql.Session, path: Path, recent: bool
) -> None:
    train(session, path, RECENT if recent else "", BATCH)
    found, plain = weights(session), counted(session, path)
    base = float(np.mean(pq.read_table(path)["label"].to_numpy()))
    assert found.keys() == plain.keys()
    for key, row in found.items():
        plain[key].z = -row["weight"] / ALPHA  # so that w is the weight
        assert row["utility"] == pytest.approx(plain_utility(plain[key], recent), rel=1e-4)
        assert row["information"] == pytest.approx(plain_information(plain[key], base, recent), rel=1e-3, abs=1e-5)


@lengthy
def test_operators_compute_the_utility_that_ml_weights_shows_of_weights_and_vectors(session: xpsql.Session, path: Path) -> None:
    statement = "TRAIN OR REPLACE MODEL m USING {} TIME ts OPERATORS ({}) WITH (batch_size = 100) AS {}"
    for algorithm in ("xftrl", "fm (dim = 3)"):
        session.sql(statement.format(algorithm, RECENT, QUERY.format(path)))
        version = session.models.version("m")
        shown = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
        for table in version.manifest.tables:
            own = {row["key"]: row["utility"] for row in shown if row.get("table", table.name) == table.name}
            for batch in version.rows(table.name):
                stored = {name: values(batch.column(name)) for name in (*table.columns, "shows", "key")}
                stored |= {name: stored[name].reshape(-1, dim) for name, dim in table.columns.items()}
                computed = utility_of({name: jnp.asarray(stored[name]) for name in stored.keys() - {"key"}})
                expected = [own[key] for key in stored["key"].tolist()]
                np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-7)


def bounds(worths: list[float]) -> list[float]:
    """Return bounds between neighbours: some far apart, and the two nearest that 32 bits tell apart."""
    distinct = sorted(set(worths))
    pairs = [(low, high) for low, high in pairwise(distinct) if high - low > 1e-4 * high and low > 0]
    nearest = min(pairs, key=lambda pair: pair[1] / pair[0])
    return [math.fsum(pair) / 2 for pair in (*(pairs[len(pairs) * i // 4] for i in (1, 3)), nearest)]


@costly
@pytest.mark.parametrize("worth", ["utility", "information"])
def test_admission_admits_the_features_of_which_ml_weights_would_show_enough(
    session: xpsql.Session, path: Path, worth: str
) -> None:
    train(session, path, "", ROWS)  # one batch: what a feature is worth as it is admitted is what it is worth in the end
    whole = weights(session)
    for bound in bounds([row[worth] for row in whole.values()]):
        train(session, path, f"admit ({worth} > {bound!r})", ROWS)
        assert weights(session).keys() == {key for key, row in whole.items() if row[worth] > bound}


@costly
@pytest.mark.parametrize("recent", [False, True])
def test_expiry_ends_the_rows_of_which_ml_weights_shows_too_little_as_shrink_model_does(
    session: xpsql.Session, path: Path, recent: bool
) -> None:
    train(session, path, RECENT if recent else "", BATCH)
    whole = weights(session)
    one = "SELECT CAST(0 AS INT) AS label, max(ts) AS ts, 'nobody' AS user, CAST(-1 AS BIGINT) AS item FROM parquet.`{}`"
    for bound in bounds([row["utility"] for row in whole.values()]):
        expected = {key for key, row in whole.items() if row["utility"] >= bound}
        session.sql("ALTER MODEL m PROMOTE VERSION 1")
        session.sql(f"SHRINK MODEL m WHERE utility < {bound!r}")
        operators = ", ".join([*([RECENT] if recent else []), f"expire (utility < {bound!r}, grace = 0)"])
        session.sql(f"CONTINUE MODEL m FROM VERSION 1 OPERATORS ({operators}) AS {one.format(path)}")
        shrunk, continued = [version.number for version in session.models.versions("m")][-2:]
        assert weights(session, shrunk).keys() == expected
        assert weights(session, continued).keys() & whole.keys() == expected

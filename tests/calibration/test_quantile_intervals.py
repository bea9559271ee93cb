"""INTERVAL of models that predict a quantile: each bound is cut by itself, so that two of them are conformalized quantiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from tests.serving.conftest import Client, failing
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

ROWS, ENDS = 40_000, {"low": 0.05, "high": 0.95}


def rows_of(seed: int) -> pa.Table:
    """Return numbers whose errors are skewed, and four times as large where x is odd."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 20, ROWS)
    number = x + np.where(x % 2, 4.0, 1.0) * random.exponential(size=ROWS)
    return pa.table({"id": np.arange(ROWS), "x": x.astype(str), "number": number})


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "new.parquet"
    pq.write_table(rows_of(2), path)
    return f"parquet.`{path}`"


@pytest.fixture(scope="module")
def quantiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    """A session with models of two quantiles, `low` and `high`."""
    path = tmp_path_factory.mktemp("rows") / "old.parquet"
    pq.write_table(rows_of(1), path)
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        for name, at in ENDS.items():
            session.sql(
                f"TRAIN MODEL {name} USING xftrl (loss = 'quantile', at = {at}) LABEL number "
                f"AS SELECT x, number FROM parquet.`{path}`"
            )
        yield session


def bounds(session: xpsql.Session, model: str, table: str, share: float = 0.9) -> dict[str, np.ndarray]:
    found = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, TABLE {table}, INTERVAL {share})").arrow()
    return {name: found[name].to_numpy() for name in found.column_names}


@pytest.mark.parametrize("share", [0.8, 0.9])
@pytest.mark.parametrize("model", ["low", "high"])
def test_each_bound_of_a_quantile_misses_half_of_the_rest(quantiles: xpsql.Session, new: str, model: str, share: float) -> None:
    found = bounds(quantiles, model, new, share)
    assert (found["number"] < found["predicted_number_low"]).mean() == pytest.approx((1 - share) / 2, abs=0.03)
    assert (found["number"] > found["predicted_number_high"]).mean() == pytest.approx((1 - share) / 2, abs=0.03)
    below, above = (abs(found["predicted_number"] - found[f"predicted_number_{end}"])[0] for end in ENDS)
    assert (below > 2 * above) if model == "high" else (above > 2 * below)


def test_the_lower_bound_of_one_and_the_upper_of_another_are_conformalized_quantiles(
    quantiles: xpsql.Session, new: str
) -> None:
    """They cover as said, and rows that are harder to predict get wider intervals and are covered as often."""
    calls = (f"ML.PREDICT(MODEL {name}, TABLE {new}, INTERVAL 0.9) AS {name[0]}" for name in ENDS)
    found = quantiles.sql(
        "SELECT x, l.number AS number, l.predicted_number_low AS low, h.predicted_number_high AS high "
        f"FROM {' JOIN '.join(calls)} USING (id, x)"
    ).arrow()
    number, low, high = (found[name].to_numpy() for name in ("number", "low", "high"))
    inside, wide = (low <= number) & (number <= high), high - low
    odd = found["x"].to_numpy(zero_copy_only=False).astype(int) % 2 == 1
    assert inside.mean() == pytest.approx(0.9, abs=0.03)
    assert wide[odd].mean() > 2 * wide[~odd].mean()
    assert abs(inside[odd].mean() - inside[~odd].mean()) < 0.06


@lengthy
def test_a_service_and_an_export_answer_the_bounds_of_predict(quantiles: xpsql.Session, new: str, tmp_path: Path) -> None:
    found = bounds(quantiles, "high", new)
    names = ["predicted_number", "predicted_number_low", "predicted_number_high"]
    client = Client(Service(Served(quantiles.models, ["high"], None, print, level=0.9), RequestLimits(), None, None, failing))
    answered = client.predict({"instances": [{"x": x} for x in found["x"][:30]]}, "high")
    assert [[row[name] for name in names] for row in answered] == np.stack([found[name][:30] for name in names], 1).tolist()
    pytest.importorskip("onnxruntime")
    given = f"WITH (interval = 0.9, parity = 'SELECT x FROM {new} LIMIT 40')"
    quantiles.sql(f"EXPORT MODEL high TO '{tmp_path}/out' FORMAT onnx {given}")  # which compares the graph with ML.PREDICT
    parity = pq.read_table(tmp_path / "out" / "parity.parquet")
    for name in names:
        np.testing.assert_allclose(parity[name], found[name][:40], rtol=1e-5)

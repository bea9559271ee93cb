"""Pooling of arrays in sums over features: what a slot of several values weighs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy, quick

ROWS = 400


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same log three times: with an array, and with a map in which its values weigh what they do by root and by mean."""
    folder, generator = tmp_path_factory.mktemp("logs"), np.random.default_rng(2)
    tags = [generator.choice(30, generator.integers(0, 9), replace=False).astype(str).tolist() for _ in range(ROWS)]
    label, user = generator.integers(0, 2, ROWS), generator.integers(0, 20, ROWS)
    columns = {"array": pa.array(tags, pa.list_(pa.string()))}
    for name, power in (("root", 0.5), ("mean", 1.0)):
        shares = [[(tag, len(own) ** -power) for tag in own] for own in tags]
        columns[name] = pa.array(shares, pa.map_(pa.string(), pa.float32()))
    for name, values in columns.items():
        pq.write_table(pa.table({"label": label, "user": user, "tags": values}), folder / f"{name}.parquet")
    return {name: f"parquet.`{folder / name}.parquet`" for name in columns}


@lengthy
@pytest.mark.parametrize("algorithm", quick(["xftrl", "logistic_regression", "fm", "ffm", "owlqn"], ["fm", "owlqn"]))
def test_an_array_is_pooled_as_a_map_of_its_shares_is_summed(
    session: xpsql.Session, logs: dict[str, str], algorithm: str
) -> None:
    def predicted(log: str, options: str) -> np.ndarray:
        session.sql(f"TRAIN OR REPLACE MODEL m USING {algorithm} {options} AS SELECT * FROM {logs[log]}")
        return np.asarray(
            session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, (SELECT * FROM {logs[log]}))").arrow()["predicted_label"]
        )

    summed = predicted("array", "(pooling = 'sum')")
    for pooling, options in (("root", ""), ("mean", "(pooling = 'mean')")):
        found = predicted("array", options)
        np.testing.assert_allclose(found, predicted(pooling, "(pooling = 'sum')"), rtol=2e-4)
        assert np.abs(found - summed).max() > 1e-3

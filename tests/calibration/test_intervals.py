"""INTERVAL of ML.PREDICT: as many labels of new rows lie between its bounds as it says, and versions keep what it needs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy, slow_elsewhere
from tests.serving.conftest import Client, failing
from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import RequestLog
from xpsql.platform.serving.served import Served
from xpsql.platform.training.metrics.residuals import BINS, SHIFT, ResidualTally, bin_of, end_of

ROWS = 40_000


def rows_of(seed: int, count: int, scale: float = 1.0) -> pa.Table:
    """Return numbers around a sum over x and y, with errors of heavy tails."""
    random = np.random.default_rng(seed)
    x, y = random.integers(0, 20, (2, count))
    number = scale * (100 + x - 2 * y + random.standard_t(4, count))
    counts = random.poisson(np.exp(0.1 * x - 0.05 * y))
    return pa.table({"x": x.astype(str), "y": y.astype(str), "number": number, "other": -number, "count": counts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows")
    for name, table in (("old", rows_of(1, ROWS)), ("new", rows_of(2, ROWS)), ("large", rows_of(3, ROWS, 1000.0))):
        pq.write_table(table, found / f"{name}.parquet", row_group_size=10_000)
    return found


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as opened:
        opened.sql(
            f"TRAIN MODEL m USING linear_regression LABEL number AS SELECT x, y, number FROM parquet.`{folder}/old.parquet`"
        )
        yield opened


def training(model: str, use: str, label: str, folder: Path) -> str:
    return f"TRAIN MODEL {model} USING {use} LABEL {label} AS SELECT x, y, {label} FROM parquet.`{folder}/old.parquet`"


def covered(session: xpsql.Session, folder: Path, label: str, share: float, model: str = "m") -> tuple[float, float]:  # noqa: F811
    """Return the share of labels of new rows between the bounds, and the mean distance of the bounds."""
    bounds = f"predicted_{label}_low AS low, predicted_{label}_high AS high"
    query = (
        f"SELECT {label} AS y, {bounds} FROM ML.PREDICT(MODEL {model}, TABLE parquet.`{folder}/new.parquet`, INTERVAL {share})"
    )
    found = session.sql(f"SELECT avg(IF(y BETWEEN low AND high, 1.0D, 0.0D)) AS c, avg(high - low) AS w FROM ({query})").arrow()
    return found["c"][0].as_py(), found["w"][0].as_py()


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.99])
def test_new_labels_lie_between_the_bounds_as_often_as_said(numbers: xpsql.Session, folder: Path, share: float) -> None:
    """Of 40,000 rows, and some 20,000 residuals, the share has a standard deviation of 0.006 at most."""
    assert covered(numbers, folder, "number", share)[0] == pytest.approx(share, abs=0.02 if share < 0.9 else 0.01)


@lengthy
@slow_elsewhere
def test_both_engines_and_several_workers_and_labels_have_intervals(session: xpsql.Session, folder: Path) -> None:  # noqa: F811
    for given in ("workers = 1", "workers = 2, sync = 'bsp'"):
        session.sql(
            f"TRAIN OR REPLACE MODEL m USING xftrl (loss = 'squared') LABEL number, other WITH ({given}) AS "
            f"SELECT x, y, number, other FROM parquet.`{folder}/old.parquet`"
        )
        for label in ("number", "other"):
            assert covered(session, folder, label, 0.9)[0] == pytest.approx(0.9, abs=0.012)


def test_a_query_that_is_not_read_in_place_has_intervals_too(numbers: xpsql.Session, folder: Path) -> None:
    some = f"(SELECT * FROM parquet.`{folder}/new.parquet` ORDER BY number LIMIT 5000)"
    found = numbers.sql(f"SELECT * FROM ML.PREDICT(MODEL m, {some}, INTERVAL 0.9)").arrow()
    assert found.column_names[-3:] == ["predicted_number", "predicted_number_low", "predicted_number_high"]
    middle, low, high = (found[name].to_numpy() for name in found.column_names[-3:])
    np.testing.assert_allclose(high - middle, middle - low, rtol=1e-6)
    assert len(np.unique((high - middle).round(6))) == 1


def test_counts_have_no_bound_below_0(numbers: xpsql.Session, folder: Path) -> None:
    numbers.sql(
        f"TRAIN MODEL c USING xftrl (loss = 'poisson') LABEL count AS SELECT x, y, count FROM parquet.`{folder}/old.parquet`"
    )
    assert covered(numbers, folder, "count", 0.9, "c")[0] == pytest.approx(0.9, abs=0.03)
    found = numbers.sql(
        f"SELECT min(predicted_count_low) AS low FROM ML.PREDICT(MODEL c, TABLE parquet.`{folder}/new.parquet`, INTERVAL 0.9)"
    )
    assert found.arrow()["low"][0].as_py() == 0


def test_continue_adds_half_of_what_its_version_knew(numbers: xpsql.Session, folder: Path) -> None:
    numbers.sql(
        f"TRAIN MODEL n USING linear_regression LABEL number AS SELECT x, y, number FROM parquet.`{folder}/old.parquet`"
    )
    width = covered(numbers, folder, "number", 0.9, "n")[1]
    numbers.sql(f"CONTINUE MODEL n AS SELECT x, y, number FROM parquet.`{folder}/new.parquet` LIMIT 200")
    assert covered(numbers, folder, "number", 0.9, "n")[1] == pytest.approx(width, rel=0.05)


@lengthy
def test_a_small_version_keeps_its_intervals(numbers: xpsql.Session, folder: Path) -> None:
    numbers.sql(
        f"TRAIN MODEL s USING linear_regression LABEL number AS SELECT x, y, number FROM parquet.`{folder}/old.parquet`"
    )
    width = covered(numbers, folder, "number", 0.9, "s")[1]
    numbers.sql("SHRINK MODEL s WHERE count > 0")
    assert covered(numbers, folder, "number", 0.9, "s")[1] == width


@lengthy
@pytest.mark.parametrize(
    ("use", "call", "message"),
    [
        ("xftrl LABEL flag", "INTERVAL 0.9", "INTERVAL is for labels that are numbers, and m has none"),
        ("owlqn (loss = 'squared') LABEL number", "INTERVAL 0.9", "keeps no residuals.* owlqn learns all examples at once"),
        ("linear_regression LABEL number", "INTERVAL 0.9999", r"residuals of \d+ rows, and INTERVAL 0.9999 takes 9,999"),
        ("linear_regression LABEL number", "INTERVAL 1", "INTERVAL expects the share of labels"),
        ("linear_regression LABEL number", "INTERVAL 0.9, INTERVAL 0.8", "INTERVAL is given twice"),
    ],
)
def test_intervals_that_cannot_be_are_refused(session: xpsql.Session, folder: Path, use: str, call: str, message: str) -> None:  # noqa: F811
    label = use.rpartition(" ")[2]
    column = "number" if label == "number" else "CAST(number > 80 AS INT) AS flag"
    rows = f"SELECT x, y, {column} FROM parquet.`{folder}/old.parquet`"
    session.sql(f"TRAIN MODEL m USING {use} AS {rows} LIMIT 400")
    with pytest.raises(StatementError, match=message):
        session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({rows}), {call})")


def test_a_bound_is_that_residual_whose_rank_the_formula_says() -> None:
    residuals = np.abs(np.random.default_rng(0).normal(size=999)).astype(np.float32)
    counts = np.bincount(residuals.view(np.uint32) >> SHIFT, minlength=BINS)
    for share in (0.5, 0.9, 0.99):
        exact = np.sort(residuals)[math.ceil(1000 * share) - 1]
        found = end_of(bin_of(np.arange(BINS), counts, share))
        assert exact <= found <= exact * (1 + 1 / 128)
    assert bin_of(np.arange(BINS), counts, 0.9999) is None
    tally = ResidualTally(3, np.arange(BINS), counts[None])
    assert tally.halved().counts.sum() <= counts.sum() / 2


def test_a_service_answers_the_bounds_of_predict_and_logs_predictions_alone(
    numbers: xpsql.Session, folder: Path, tmp_path: Path
) -> None:
    served = Served(numbers.models, ["m"], None, print, level=0.9)
    log = RequestLog(tmp_path / "served", 1.0, print)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing))
    rows = f"(SELECT x, y FROM parquet.`{folder}/new.parquet` LIMIT 50)"
    asked = numbers.sql(f"SELECT * FROM {rows}").arrow().to_pylist()
    found = client.predict({"instances": asked}, "m")
    log.stop()
    wanted = numbers.sql(f"SELECT * EXCEPT (x, y) FROM ML.PREDICT(MODEL m, {rows}, INTERVAL 0.9)").arrow().to_pylist()
    assert found == wanted
    logged = numbers.sql(f"SELECT served_prediction AS p FROM parquet.`{tmp_path}/served/served_model=m`").arrow()
    assert logged["p"].to_pylist() == [row["predicted_number"] for row in wanted]


@lengthy
def test_a_service_of_probabilities_has_no_intervals(session: xpsql.Session) -> None:  # noqa: F811
    session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, CAST(id AS STRING) AS x FROM range(100)")
    with pytest.raises(StatementError, match="INTERVAL is for labels that are numbers, and m has none"):
        Served(session.models, ["m"], None, print, level=0.9)

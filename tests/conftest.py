"""What many tests share: one Spark for the whole run, a fixture that is each engine in turn, and a session on DuckDB."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

import xpsql
from tests import java
from xpsql.platform.engines.base import Engine
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.engines.spark.start import connected, started
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.compiled import prepare_jax

for profile, repeats in (("xpsql", True), ("chaos", False)):  # what make test draws is the same each time; machines may be busy
    settings.register_profile(profile, deadline=None, derandomize=repeats, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xpsql")

gc.set_threshold(100_000, 50, 50)  # programs leave much behind, and little of it in circles: a tenth of the time
prepare_jax()  # as sessions do, for tests without one too: with what runs before have compiled

for variable in java.VARIABLES:  # of the processes that tests start, too
    os.environ.setdefault(variable, java.OPTIONS)


def pytest_configure(config: pytest.Config) -> None:
    """Make once what Java starts faster with; the processes of pytest-xdist leave it to the first."""
    if not hasattr(config, "workerinput"):
        java.begin_archive()


SLOW = [
    "chaos/test_spark",
    "chaos/test_embedded",
    "doors/test_every_damage",
    "clusters/test_clusters",
    "clusters/test_pack",
    "portable/test_round_trip",
    "examples/test_plugin",
    "examples/test_flights",
    "benchmarks/test_groups",
    "packaging/test_wheel",
    "training/test_gate_kill",
    "training/test_kill_at_end",
]
"""Files that start clusters and builds, or kill processes: `make test-slow` runs these, `make test` all others."""

LONGEST = [
    "algorithms/test_conformance",
    "algorithms/test_spark",
    "simulation/test_simulation",
    "training/test_train",
    "training/test_resume",
    "training/test_recovery",
    "cli/test_process",
    "training/test_delta",
    "sql/test_model_statements",
    "training/test_auto_session",
    "algorithms/test_owlqn",
    "training/test_xnn",
    "training/test_bad_input",
]
"""Files that take longest, in this order, before all others: so all processes are busy to the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / f"{name}.py": number for number, name in enumerate(SLOW + LONGEST)}
    assert all(path.exists() for path in places), "SLOW or LONGEST names a file that is not there"
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if places.get(item.path, len(SLOW)) < len(SLOW):
            item.add_marker("slow")


MASTER = "local[6]"  # room for three shards and three workers at once
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",  # given here, as the next, so that every new session of the application has it
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.ui.retainedExecutions": "1",
}


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Let JAX forget after each module what it has compiled: in all that would be gigabytes."""
    yield
    jax.clear_caches()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def spark_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark, once; what it would write goes to a folder of its own. With $XPSQL_TEST_REMOTE, a server of Spark Connect
    runs it."""
    if remote := os.environ.get("XPSQL_TEST_REMOTE"):
        yield connected(remote, {}, None)
        return
    if shutil.which("java") is None and not (Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java").exists():
        pytest.skip("Spark needs Java: install a JDK, version 17 or newer")
    folder = str(tmp_path_factory.mktemp("spark"))
    spark = started(MASTER, {**SETTINGS, "spark.sql.warehouse.dir": folder, "spark.local.dir": folder})
    yield spark
    spark.stop()


@pytest.fixture
def spark(spark_application: SparkSession) -> SparkSession:
    """A session of its own settings and temporary views."""
    return spark_application.newSession()


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> str | SparkSession:
    """What `xpsql.connect` is given to use each engine."""
    return "duckdb" if request.param == "duckdb" else request.getfixturevalue("spark")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def session(warehouse: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        yield session


@pytest.fixture(params=["duckdb", "spark"])
def opened(request: pytest.FixtureRequest, warehouse: Path) -> Iterator[Callable[[], Engine]]:
    """Opens engines on the warehouse, each time another session of the same kind."""
    with ExitStack() as stack:

        def open_one() -> Engine:
            if request.param == "duckdb":
                engine: Engine = DuckDBEngine(warehouse)
            else:
                engine = SparkEngine(request.getfixturevalue("spark").newSession(), warehouse, owned=False)
            stack.callback(engine.close)
            return engine

        yield open_one

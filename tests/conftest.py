"""What many tests share: one Spark for the whole run, a fixture that is each engine in turn, and a session on DuckDB."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

import xpsql
from tests import java
from tests.connect_server import serving
from tests.sparks import REMOTE
from xpsql.platform.engines.base import Engine
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.spark.engine import SparkEngine
from xpsql.platform.engines.spark.start import connected, started
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.compiled import prepare_jax

for profile, repeats in (("xpsql", True), ("chaos", False)):  # what make test draws is the same each time; machines may be busy
    settings.register_profile(profile, deadline=None, derandomize=repeats, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("xpsql")

if not os.environ.get("XPSQL_TEST_FUSED") and jax.__version_info__ < (0, 11):
    # XLA's older way to compile loops takes half the time; later versions do not know the flag, and end at it.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")  # processes that tests start read it, too

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what it runs in the background so; tests send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)  # to processes, which inherit it

os.fsync = lambda descriptor: None  # no test turns the machine off, and a disk takes milliseconds for each
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
    "benchmarks/test_sequences",
    "packaging/test_wheel",
    "training/test_gate_kill",
    "training/test_kill_at_end",
    "training/test_resume_kill",
    "training/auto/test_killed_search",
    "monitoring/test_killed_commit",
    "parameters/test_service",
    "parameters/test_ranks",
    *(f"docs/test_{page}" for page in ("auto", "explain", "vectors", "multi_task", "networks", "retrieval", "serving")),
]
"""Files that start clusters and builds, kill processes, or run long pages, which `make test` leaves to `make test-slow`."""

LONGEST = [
    "engines/test_connect",
    "algorithms/test_conformance",
    "histories/test_stored_histories_in_models",
    "operators/test_conformance",
    "training/test_bad_input",
    "algorithms/test_spark",
    "algorithms/test_golden",
    "simulation/test_simulation",
    "engines/test_tables",
    "training/test_resume",
    "training/test_recovery",
    "sql/test_model_statements",
    "engines/test_open_table_kills",
    "parity/test_parity",
    "algorithms/test_losses",
    "docs/test_spark",
    "algorithms/test_continue",
    "udf/test_functions",
    "training/test_train",
    "training/test_delta",
    "engines/test_spark",
    "cli/test_process",
    "test_imports",
]
"""Files that take longest, in this order, before all others: so all processes are busy to the end."""


ELSEWHERE = {"engine": "spark", "opened": "spark", "session": "on tasks"}
"""Fixtures that run a test in one place and in another, and the other one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / f"{name}.py": number for number, name in enumerate(SLOW + LONGEST)}
    assert all(path.exists() for path in places), "SLOW or LONGEST names a file that is not there"
    items.sort(key=lambda item: places.get(item.path, len(places)))
    if REMOTE:
        items[:] = filter(is_on_spark, items)
    seen, begun = set[tuple[Path, str]](), set[tuple[Path, str]]()
    for item in items:
        if places.get(item.path, len(SLOW)) < len(SLOW) or crossed(item, seen):
            item.add_marker("slow")
        elif item.get_closest_marker("costly_after_first") and isinstance(item, pytest.Function):
            name = (item.path, item.originalname)
            item.add_marker("costly") if name in begun else begun.add(name)


def crossed(item: pytest.Item, seen: set[tuple[Path, str]]) -> bool:
    """Return whether a test is a further case of one that was `seen` elsewhere: `make test` takes all cases on the embedded
    engine in this process, and the first of them on Spark or on tasks."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if item.path.stem == "test_conformance" or all(given.get(fixture) != place for fixture, place in ELSEWHERE.items()):
        return False
    if item.get_closest_marker("slow_elsewhere"):
        return True
    if len(given) == 1 or item.get_closest_marker("slow"):
        return False
    name = (item.path, item.originalname)
    if name in seen:
        return True
    seen.add(name)
    return False


def is_on_spark(item: pytest.Item) -> bool:
    """Return whether a test uses the Spark of this file."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = any(isinstance(one, str) and one == "spark" for one in given)  # a fixture that asks for it as it runs
    return named or "spark_application" in getattr(item, "fixturenames", ())


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


MOST_BYTES = 2_200_000_000
STATM = Path("/proc/self/statm")


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Let JAX forget what it has compiled where this process has become large: in all that would be gigabytes."""
    yield
    if not STATM.exists() or int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_BYTES:
        jax.clear_caches()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def spark_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark, once; what it would write goes to a folder of its own. Where REMOTE says so, it is behind a server."""
    if REMOTE not in ("", "local"):
        yield connected(REMOTE, {}, None)
        return
    if shutil.which("java") is None and not (Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java").exists():
        pytest.skip("Spark needs Java: install a JDK, version 17 or newer")
    folder = str(tmp_path_factory.mktemp("spark"))
    if REMOTE:
        server = ExitStack()
        address = server.enter_context(serving(MASTER, SETTINGS, Path(folder)))
        atexit.register(server.close)  # after the sessions' own, which ask the server again and again if it is gone
        yield connected(address, {}, None)
        return
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

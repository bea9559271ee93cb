"""A forked child says at once what it cannot do, where it would wait for threads of its parent for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import costly, lengthy

SECONDS = 120
PARENT = """
import json, os, warnings
import pyarrow as pa
import xpsql
from xpsql import dbapi
from xpsql.platform.images.overlay import weights_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.loaded import Loaded

warnings.simplefilter("ignore")
ROWS = pa.table({"user": ["u1", "u2"], "click": [0, 1]})
session = xpsql.connect("WAREHOUSE", reporter=SilentReporter())
connection = dbapi.connect("WAREHOUSE")
session.sql(
    "CREATE OR REPLACE TABLE log AS SELECT CAST(id % 3 = 0 AS INT) AS click, concat('u', id % 11) AS user FROM range(300)"
)


def said(ask):
    try:
        return str(type(ask()).__name__)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def child(asks):
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, json.dumps([said(ask) for ask in asks]).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        print(pipe.read())
"""
OWN = """
def own(statement):
    with xpsql.connect("WAREHOUSE", reporter=SilentReporter()) as mine:
        return mine.sql(statement)
"""
PREDICT = "SELECT * FROM ML.PREDICT(MODEL {}, TABLE log)"


def run(program: str, warehouse: Path) -> list[str]:
    """Return what a child of a program that forks said to each of its questions."""
    text = (PARENT + OWN + program).replace("WAREHOUSE", str(warehouse))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return [str(one) for one in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@lengthy
def test_a_session_of_the_parent_is_refused_at_each_door(warehouse: Path) -> None:
    said = run(
        """
session.sql("TRAIN OR REPLACE MODEL sums USING xftrl LABEL click AS SELECT * FROM log")
model, cursor = session.model("sums"), connection.cursor()
child([
    lambda: session.sql("SHOW MODELS"),
    lambda: session.register("frame", ROWS),
    lambda: session.unregister("frame"),
    lambda: session.model("sums"),
    lambda: model.predict(ROWS),
    lambda: model.versions,
    lambda: cursor.execute("SELECT 1"),
    lambda: session.close(),
])
""",
        warehouse,
    )
    assert all("belongs to process" in one and "spawn" in one for one in said[:-1]), said
    assert said[-1] == "NoneType"


@costly
def test_a_child_of_a_parent_that_ran_jax_runs_what_needs_none(warehouse: Path) -> None:
    said = run(
        f"""
session.sql("TRAIN OR REPLACE MODEL sums USING xftrl LABEL click AS SELECT * FROM log")
session.sql("TRAIN OR REPLACE MODEL net USING xnn (hidden = 4, dim = 2) LABEL click AS SELECT * FROM log")
version = session.models.version("net")
loaded = Loaded(version, weights_of(version, False, (), print))
child([
    lambda: own("SELECT count(*) FROM log"),
    lambda: own({PREDICT.format("sums")!r}),
    lambda: own({PREDICT.format("net")!r}),
    lambda: own("TRAIN MODEL other USING xftrl LABEL click AS SELECT * FROM log"),
    lambda: own("EXPLAIN TRAIN MODEL other USING xftrl LABEL click AS SELECT * FROM log"),
    lambda: loaded.predict(ROWS),
])
""",
        warehouse,
    )
    assert said[:2] == ["Result", "Result"], said
    assert all("forked from one that runs JAX" in one and "spawn" in one for one in said[2:]), said


@costly
def test_a_child_of_a_parent_that_trained_a_network_takes_its_weights_to_no_jax(warehouse: Path, tmp_path: Path) -> None:
    said = run(
        f"""
session.sql("TRAIN OR REPLACE MODEL other USING xnn (hidden = 8) LABEL click AS SELECT * FROM log")
child([
    lambda: own({PREDICT.format("other")!r}),
    lambda: own("EXPORT MODEL other TO '{tmp_path / "out"}' FORMAT serving"),
])
""",
        warehouse,
    )
    assert all("forked from one that runs JAX" in one and "spawn" in one for one in said), said


@costly
def test_a_child_of_a_parent_that_only_ran_queries_runs_everything(warehouse: Path) -> None:
    said = run(
        f"""
session.sql("SELECT count(*) FROM log")
child([
    lambda: own("TRAIN OR REPLACE MODEL other USING xnn (hidden = 4, dim = 2) LABEL click AS SELECT * FROM log"),
    lambda: own({PREDICT.format("other")!r}),
])
""",
        warehouse,
    )
    assert said == ["Result", "Result"]

"""What is done imports what it needs, and no more: a package that takes long to import is imported where it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = "SELECT id % 2 = 0 AS y, CAST(id % 5 AS string) AS ad, CAST(id * 999 AS int) AS n FROM range(64)"
WITHOUT_JAX = (
    "platform.input.dealing",
    "platform.ps.client",
    "platform.ps.rows.reference",
    "platform.ps.service",
    "platform.training.checkpoints.checkpointer",
    "platform.training.checkpoints.files",
    "platform.training.checkpoints.recovery",
    "platform.training.monitor",
    "platform.training.online.pace",
    "platform.training.tasks.cluster",
    "platform.training.tasks.membership",
    "warehouse.models",
)
STEPS = {
    "xpsql": ("import xpsql", {"click", "duckdb", "jax", "numpy", "pyarrow", "pyspark", "rich", "sqlglot"}),
    "what decides in a training": ("; ".join(f"import xpsql.{module}" for module in WITHOUT_JAX), {"jax"}),
    "a session": ("xpsql.connect().sql('SELECT 1')", {"jax", "pyspark"}),
    "a query by the command": (
        "from xpsql.platform.cli import main; main(['sql', 'SELECT 1 AS x'], standalone_mode=False)",
        {
            "jax",
            "pyspark",
            "pandas",
            "rich",
            "prompt_toolkit",
            "asyncio",
            "xpsql.platform.cli.serve",
            "xpsql.platform.cli.check",
        },
    ),
    "a training and its predictions": (
        f"main(['sql', 'TRAIN MODEL m USING xftrl LABEL y AS {ROWS}; SELECT * FROM ML.PREDICT(MODEL m, ({ROWS}))'], "
        "standalone_mode=False)",
        {"optax", "pandas", "pyarrow.compute", "pyspark"},
    ),
}
"""Done one after the other in one process, and what is not imported then."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The packages of each step that are imported after it."""
    program = "import json, sys; found = {}"
    for name, (text, packages) in STEPS.items():
        program += f"\n{text}\nfound[{name!r}] = sorted({packages!r} & set(sys.modules))"
    program += "\nprint(json.dumps(found), file=sys.stderr)"
    folder: Path = tmp_path_factory.mktemp("warehouse")
    env = {**os.environ, "XPSQL_WAREHOUSE": str(folder)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_imported_before_it_is_needed(imported: dict[str, list[str]], step: str) -> None:
    assert imported[step] == []

"""dbt: models are trained by dbt-duckdb's rows, continued day by day, and tested by their versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbt.adapters.duckdb", reason="dbt-duckdb has packages of its own: run this test where it is installed")

import duckdb

import xpsql
from xpsql.platform.adapters.dbt import PACKAGE
from xpsql.platform.progress import SilentReporter

FILES = {
    "dbt_project.yml": "name: ads\nversion: '1.0'\nconfig-version: 2\nprofile: ads\nmodel-paths: [models]\n",
    "packages.yml": f"packages:\n  - local: {PACKAGE}\n",
    "models/log.sql": """{{ config(materialized='table') }}
SELECT day, 'u' || (id % 37) AS user, 'a' || (id % 23) AS ad, ((id * 7919 + day) % 100 < 20 + id % 37)::INT AS click
FROM range(8000) AS r(id), range(1, 4) AS d(day)
""",
    "models/ctr.sql": """{{ config(materialized='xpsql_model', using='xftrl (alpha = 0.2)', label='click',
    clauses='EVALUATE EVERY 9 BATCHES ON 1 BATCHES', release_when='auc > 0.5', settings={'batch_size': 256, 'seed': 3},
    once=var('day') | string) }}
SELECT user, ad, click FROM {{ ref('log') }} WHERE day {{ '=' if xpsql.is_continued() else '<=' }} {{ var('day') }}
""",
    "models/scores.sql": "SELECT version, auc FROM {{ ref('ctr') }} WHERE served",
    "models/schema.yml": """models:
  - name: ctr
    columns:
      - name: auc
        data_tests: [not_null]
""",
}


def written(folder: Path, warehouse: Path) -> None:
    profile = f"""ads:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: {folder}/ads.duckdb
      external_root: {folder}/rows
      plugins:
        - module: xpsql.platform.adapters.dbt
          alias: xpsql
          config: {{warehouse: '{warehouse}'}}
"""
    (folder / "rows").mkdir()
    for name, text in {**FILES, "profiles.yml": profile}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def dbt(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the command dbt, and return its exit code and what it said."""
    place = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    command = [sys.executable, "-m", "dbt.cli.main", "--no-use-colors", "--no-send-anonymous-usage-stats"]
    done = subprocess.run([*command, *arguments, *place], capture_output=True, text=True, timeout=200, cwd=folder)
    return done.returncode, done.stdout + done.stderr


def build(folder: Path, day: int, *more: str) -> tuple[int, str]:
    return dbt(folder, "build", "--vars", f"day: {day}", *more)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    written(tmp_path, tmp_path / "warehouse")
    assert dbt(tmp_path, "deps")[0] == 0
    return tmp_path


def versions(project: Path) -> list[tuple[Any, ...]]:
    with xpsql.connect(project / "warehouse", reporter=SilentReporter()) as session:
        return session.sql("SELECT version, status, examples FROM ML.VERSIONS(MODEL ctr)").fetchall()


def test_a_model_is_trained_continued_and_learned_anew(project: Path) -> None:
    assert build(project, 1)[0] == 0
    assert versions(project) == [(1, "ready", 8000)]
    assert build(project, 2)[0] == 0
    assert build(project, 2)[0] == 0  # that day was learned
    assert versions(project) == [(1, "ready", 8000), (2, "ready", 8000)]
    with duckdb.connect(str(project / "ads.duckdb"), read_only=True) as connection:
        assert connection.sql("SELECT count(*) FROM ctr").fetchall() == [(2,)]
        ((served, auc),) = connection.sql("SELECT version, auc FROM scores").fetchall()
    assert served == 2
    assert 0.5 < auc < 1
    assert build(project, 3, "--full-refresh")[0] == 0
    assert [row[1:] for row in versions(project)] == [("ready", 24000)]


def test_a_version_that_is_held_fails_the_model_and_what_is_built_on_it(project: Path) -> None:
    path = project / "models" / "ctr.sql"
    path.write_text(path.read_text().replace("auc > 0.5", "auc > 0.99"))
    code, said = build(project, 1)
    assert code == 1
    assert "Version 1 of model ctr is held, not served: RELEASE WHEN auc > 0.99 is false" in said
    assert "SKIP relation main.scores" in said

"""Every algorithm that has weights, exported and scored by a process without xpsql."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xpsql
from tests.algorithms.uses import USES
from tests.cases import costly
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

pytest.importorskip("jax2onnx")
pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-5
PICS = "VECTORS pics AS (SELECT id, vector FROM pics)"
MORE = {
    "two_files": "xnn (long_dim = 4, long_information = 1, interaction = bi, pooling = root)",
    "offered": "xftrl OPERATORS (auto_session)",
    "feedback": "xsvd (feedback = (tags, scores), feedback_items = 2, user = (user, price))",
    "vectors": f"xnn (dim = 3, hidden = (4)) LABEL label {PICS} WITH (vectors = (user IN pics, tags IN pics))",
    "seen": f"din (target = (user), history = (tags), length = 3, dim = 2, hidden = (4), attention = (4)) LABEL label {PICS} "
    "WITH (share = (tags AS user), vectors = (user IN pics, tags IN pics))",
    "logarithmic": "xnn (continuous = log1p, hidden = (4), wide = false)",
    "counts": "ffm (loss = 'poisson')",
    "deep_counts": "xnn (loss = 'poisson', hidden = (4))",
    "quantile": "fm (loss = 'quantile', at = 0.9)",
    "normalised": "multi_task (normalise = batch_norm, base = mmoe, hidden = (4), expert_hidden = (4))",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("portable"), "duckdb", SilentReporter()) as session:
        yield session


def scored(folders: list[Path]) -> dict[str, float]:
    """Return the largest difference of each export, in a process whose imports find no xpsql."""
    script = Path(__file__).with_name("score.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), str(ROOT / "examples" / "portable"), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, cwd=folders[0])
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


@costly
def test_every_algorithm_scores_the_same_without_xpsql(session: xpsql.Session, tmp_path: Path) -> None:
    path, folders = write(log(300), tmp_path / "log.parquet"), []
    ids = f"SELECT user AS id FROM parquet.`{path}` UNION SELECT explode(tags) FROM parquet.`{path}`"
    vector = "array(sin(length(id)), cos(ascii(substr(id, 2))), ascii(substr(id, 3)))"
    session.sql(f"CREATE TEMPORARY VIEW pics AS SELECT id, {vector} AS vector FROM ({ids}) WHERE id NOT LIKE '%3'")
    query = f"SELECT label, user, item, price, tags, scores, vector FROM parquet.`{path}`"
    statements = {name: use.train(name, name, path) for name, use in USES.items() if name != "sequence"}
    statements |= {name: f"TRAIN MODEL {name} USING {using} AS {query}" for name, using in MORE.items()}
    kinds = f"SELECT user, price, tags, concat('k', item % 3) AS kind FROM parquet.`{path}`"
    statements["classes"] = f"TRAIN MODEL classes USING xnn LABEL kind AS {kinds}"
    statements["crossed"] = f"TRAIN MODEL crossed USING fm LABEL label CROSS (user * item, user * tags) AS {query}"
    query = f"SELECT label, user, CAST(length(item) AS BIGINT) AS id, tags FROM parquet.`{path}`"
    statements["ids"] = f"TRAIN MODEL ids USING fm WITH (raw = (id)) AS {query}"
    for name, statement in statements.items():
        session.sql(statement)
        for kind in ("serving", "onnx") if name != "xgboost" else ("serving",):
            folders.append(tmp_path / kind / name)
            session.sql(f"EXPORT MODEL {name} TO '{folders[-1]}' FORMAT {kind}")
    differences = scored(folders)
    assert len(differences) == len(folders)
    assert {folder: found for folder, found in differences.items() if not found <= TOLERANCE} == {}

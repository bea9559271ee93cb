"""MLflow: versions are runs and registered models, which a process without xpsql scores with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly
from tests.notes import Notes
from xpsql.platform.errors import StatementError, TrainingError

mlflow = pytest.importorskip("mlflow", reason="the package of the extra mlflow")
pytest.importorskip("jax2onnx", reason="the packages of the extra onnx")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:mlflow", "ignore::FutureWarning", "ignore::DeprecationWarning")
DAY = """CREATE TABLE {} AS SELECT concat('u', id % 37) AS user, CAST(id % 23 AS INT) AS ad, CAST(id % 9 AS DOUBLE) AS price,
    CAST({} AS INT) AS click FROM range({}, {})"""
SCORED = """
import json, sys, mlflow, pandas
rows = pandas.read_parquet(sys.argv[1])
said = mlflow.pyfunc.load_model("models:/m@served").predict(rows)
assert "xpsql" not in sys.modules
print(json.dumps(said["predicted_click"].tolist()))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder with a store of MLflow, which a session of four statements has told."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"file://{folder}/runs")
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("XPSQL_MLFLOW", "1")
        with xpsql.connect(folder / "warehouse", reporter=Notes()) as session:
            for number, (day, label) in enumerate((("d1", "id % 37 < 14"), ("d2", "id % 37 < 14"), ("d3", "hash(id) % 2 = 0"))):
                session.sql(DAY.format(day, label, number * 4000, number * 4000 + 4000))
            session.sql(
                "TRAIN MODEL m USING xftrl (alpha = 0.3) LABEL click EVALUATE EVERY 9 BATCHES ON 1 BATCHES "
                "RELEASE WHEN auc > 0.7 WITH (batch_size = 128) AS SELECT * FROM d1"
            )
            session.sql("CONTINUE MODEL m AS SELECT * FROM d2")
            with pytest.raises(TrainingError, match="held"):
                session.sql("CONTINUE MODEL m AS SELECT * FROM d3")
            with pytest.raises(StatementError, match="nope"):
                session.sql("TRAIN MODEL bad USING xftrl LABEL nope AS SELECT * FROM d1")
            said = session.sql("SELECT * FROM ML.PREDICT(MODEL m, (SELECT * EXCEPT (click) FROM d2 LIMIT 60))")
            said.to_pandas().to_parquet(folder / "rows.parquet")
        yield folder


def runs(client: Any) -> dict[str, Any]:
    experiment = client.get_experiment_by_name("xpsql")
    return {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


@costly
def test_a_version_is_a_run_with_options_metrics_and_sources(store: Path) -> None:
    client = mlflow.MlflowClient()
    found = runs(client)
    assert {name: run.info.status for name, run in found.items()} == {
        "m v1": "FINISHED", "m v2": "FINISHED", "m v3": "FINISHED", "bad": "FAILED",
    }  # fmt: skip
    first = found["m v1"].data
    assert first.params["xftrl.alpha"] == "0.3"
    assert first.params["WITH.batch_size"] == "128"
    assert first.metrics["auc"] > 0.7
    assert len(client.get_metric_history(found["m v1"].info.run_id, "window/auc")) == 3
    assert [one.dataset.name for one in found["m v2"].inputs.dataset_inputs] == ["d2"]
    assert found["m v2"].data.tags["xpsql.parent"] == "1"
    assert found["m v3"].data.tags["xpsql.status"] == "held"
    assert "auc is" in found["m v3"].data.tags["xpsql.reason"]
    assert "nope" in found["bad"].data.tags["xpsql.error"]


@costly
def test_the_alias_names_the_version_that_is_served(store: Path) -> None:
    client = mlflow.MlflowClient()
    registered = {one.version: one.tags["xpsql.version"] for one in client.search_model_versions("name='m'")}
    assert registered[client.get_model_version_by_alias("m", "served").version] == "2"
    with xpsql.connect(store / "warehouse", reporter=Notes()) as session:
        session.sql("ALTER MODEL m PROMOTE VERSION 1")
        assert registered[client.get_model_version_by_alias("m", "served").version] == "1"
        session.sql("ALTER MODEL m PROMOTE LAST")
    assert registered[client.get_model_version_by_alias("m", "served").version] == "2"


@costly
def test_a_process_without_xpsql_predicts_the_same(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCORED, str(store / "rows.parquet")],
        capture_output=True, text=True, timeout=200, cwd=store,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    import pandas as pd

    wanted = pd.read_parquet(store / "rows.parquet")["predicted_click"]
    np.testing.assert_allclose(json.loads(done.stdout), wanted, atol=1e-6)


@costly
def test_frames_have_the_types_that_pandas_makes_and_may_lack_values(store: Path) -> None:
    from mlflow.pyfunc import load_model

    model = load_model("models:/m@served")
    rows = {"user": ["u1", None], "ad": [2, 3], "price": [1.5, None]}
    with xpsql.connect(store / "warehouse", reporter=Notes()) as session:
        query = "SELECT 'u1' AS user, 2 AS ad, 1.5D AS price UNION ALL SELECT NULL, 3, NULL"
        wanted = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL m, ({query}))").arrow()
    import pandas as pd

    said = model.predict(pd.DataFrame(rows))["predicted_click"]
    np.testing.assert_allclose(sorted(said), sorted(wanted["predicted_click"].to_pylist()), atol=1e-6)


def test_a_server_that_is_not_there_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").write_text("no folder")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/runs/below")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("XPSQL_MLFLOW", "1")
    with xpsql.connect(tmp_path / "warehouse", reporter=(heard := Notes())) as session:
        session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, CAST(id % 7 AS STRING) AS x FROM range(300)")
        assert session.models.version("m").manifest.status == "ready"
    assert any("Mlflow was not told of this statement" in note for note in heard.notes)


def test_without_the_package_the_note_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPSQL_MLFLOW", "1")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with xpsql.connect(tmp_path / "warehouse", reporter=(heard := Notes())) as session:
        session.sql("TRAIN MODEL m USING xftrl AS SELECT id % 2 AS label, CAST(id % 7 AS STRING) AS x FROM range(300)")
    assert any("pip install 'xpsql[mlflow]'" in note for note in heard.notes)

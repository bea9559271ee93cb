"""CALIBRATE: what it makes of predictions, on both engines, served, continued and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import costly, lengthy
from tests.notes import Notes
from tests.training.test_resume import interrupted, reported_at_once  # noqa: F401  a fixture
from xpsql.platform.errors import ModelError, StatementError, TrainingError
from xpsql.platform.images.overlay import weights_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.loaded import Loaded
from xpsql.warehouse.manifest import read_json

ROWS = 24_000
BY = "CALIBRATE (by = (site))"
EVALUATED = "EVALUATE EVERY 20 BATCHES ON 10 BATCHES BY site"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clicks of users on sites, whose rates users and sites decide together."""
    random = np.random.default_rng(1)
    site, user = random.integers(0, 40, ROWS), random.zipf(1.3, ROWS) % 3000
    signal = np.sin(user * 1.7) + (site % 7 - 3) * 0.4 - 1.5 + 0.8 * np.sin(site) * np.cos(user)
    table = pa.table(
        {
            "click": (random.random(ROWS) < 1 / (1 + np.exp(-signal))).astype(np.int32),
            "site": [f"s{i}" for i in site],
            "user": [f"u{i}" for i in user],
        }
    )
    found = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(table, found, row_group_size=6000)
    return found


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "embedded", reporter=Notes()) as session:
        yield session


def trained(session: xpsql.Session, path: Path, clauses: str, using: str = "xftrl", verb: str = "TRAIN OR REPLACE") -> Any:
    session.sql(f"{verb} MODEL m USING {using} LABEL click {clauses} AS SELECT * FROM parquet.`{path}`")
    return session.models.version("m").manifest


def predicted(session: xpsql.Session, path: Path) -> np.ndarray:
    query = f"SELECT predicted_click FROM ML.PREDICT(MODEL m, (SELECT site, user FROM parquet.`{path}`))"
    return session.sql(query).arrow().column(0).to_numpy()


def evaluated(session: xpsql.Session, path: Path) -> dict[str, Any]:
    (row,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow().to_pylist()
    return row


@lengthy
def test_predictions_mean_what_they_say_and_keep_their_order(embedded: xpsql.Session, path: Path) -> None:
    plain = trained(embedded, path, "")
    raw, before = predicted(embedded, path), evaluated(embedded, path)
    curved = trained(embedded, path, "CALIBRATE (method = 'isotonic')")
    after = evaluated(embedded, path)
    order = np.argsort(raw, kind="stable")
    assert (np.diff(predicted(embedded, path)[order]) >= 0).all()
    assert after["auc"] == pytest.approx(before["auc"], abs=1e-4)
    assert curved.metrics["ece"] < 0.8 * curved.metrics["raw.ece"]
    assert curved.metrics["raw.ece"] == pytest.approx(plain.metrics["ece"], abs=2e-3)  # bins are wider
    assert curved.metrics["raw.pcopc"] == pytest.approx(plain.metrics["pcopc"], abs=1e-6)
    assert curved.metrics["logloss"] < plain.metrics["logloss"]
    assert (plain.requires, curved.requires) == ((), ("calibrated",))


@costly
def test_biases_repair_the_values_of_a_column(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, "IGNORE (site) " + EVALUATED.replace(" BY site", ""))
    trained(embedded, path, f"CALIBRATE (method = 'platt') {EVALUATED}")
    without = embedded.models.version("m").manifest.evaluation
    trained(embedded, path, f"{BY} {EVALUATED}")
    manifest = embedded.models.version("m").manifest
    assert manifest.evaluation["field_ce(site)"] <= without["field_ce(site)"]
    assert manifest.evaluation["field_rce(site)"] > manifest.evaluation["field_ce(site)"]
    assert 0.9 < manifest.evaluation["field_share(site)"] <= 1
    row = evaluated(embedded, path)
    assert 0 < row["field_ce"] < 0.1
    assert row["field_share"] == 1


@costly
def test_both_engines_fit_the_same(path: Path, tmp_path: Path, spark: SparkSession) -> None:
    found = []
    for name, engine in (("duckdb", "duckdb"), ("spark", spark)):
        with xpsql.connect(tmp_path / name, engine, SilentReporter()) as session:
            manifest = trained(session, path, f"{BY} {EVALUATED} WITH (workers = 1)")
            found.append((manifest.calibrators, predicted(session, path), manifest.metrics, manifest.evaluation))
    (one, scores, metrics, windows), (other, others, also, again) = found
    assert one == other
    assert (np.sort(scores) == np.sort(others)).all()
    for name, value in metrics.items():
        assert value is None or also[name] == pytest.approx(value, rel=1e-12)
    assert windows["ece"] == pytest.approx(again["ece"], rel=1e-12)


@costly
def test_a_service_says_what_predictions_say(embedded: xpsql.Session, path: Path) -> None:
    rows = pq.read_table(path, columns=["site", "user"]).slice(0, 300)
    for using in ("xftrl", "fm", "xnn"):
        for clauses in (BY, "CALIBRATE", "WITH (negatives_kept = 0.2)"):
            trained(embedded, path, clauses, using)
            expected = predicted(embedded, path)[:300]
            version = embedded.models.version("m")
            loaded = Loaded(version, weights_of(version, False, (), print))
            natively = loaded.predict_objects(rows.to_pylist(), None)
            assert natively is not None
            for said in (natively, loaded.predict(rows)):
                np.testing.assert_allclose(said["predicted_click"].to_numpy(), expected, rtol=1e-6 if using == "xnn" else 0)


@costly
def test_rows_of_label_0_that_the_query_left_out_are_made_up_for(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, "")
    raw = predicted(embedded, path)
    manifest = trained(embedded, path, "WITH (negatives_kept = 0.2)")
    np.testing.assert_allclose(predicted(embedded, path), raw / (raw + (1 - raw) / 0.2), rtol=1e-5)
    assert manifest.metrics["pcopc"] == pytest.approx(1, abs=0.1)
    assert evaluated(embedded, path)["pcopc"] < 0.5


@costly
def test_a_version_that_continues_takes_over_half_of_what_was_known(embedded: xpsql.Session, path: Path) -> None:
    first = trained(embedded, path, BY)
    few = f"SELECT * FROM parquet.`{path}` LIMIT 300"
    embedded.sql(f"CONTINUE MODEL m AS {few}")
    second = embedded.models.version("m").manifest
    assert second.calibrators[0].method == "isotonic"  # 300 rows alone would give a straight line
    assert second.calibrators != first.calibrators
    assert second.clauses["CALIBRATE"] == {"method": "isotonic", "by": ["site"]}
    embedded.sql("SHRINK MODEL m WHERE count < 2")
    assert embedded.models.version("m").manifest.calibrators == second.calibrators
    assert len(predicted(embedded, path)) == ROWS


@costly
def test_a_training_that_was_interrupted_ends_with_the_same_calibrators(path: Path, tmp_path: Path) -> None:
    statement = (
        f"TRAIN MODEL m USING xftrl LABEL click {BY} {EVALUATED} WITH (checkpoint_seconds = 0.001, workers = 1) "
        f"AS SELECT * FROM parquet.`{path}`"
    )
    interrupted(tmp_path / "cut", statement)
    found = []
    for name, text in (("cut", "RESUME MODEL m"), ("whole", statement)):
        with xpsql.connect(tmp_path / name, "duckdb", SilentReporter()) as session:
            session.sql(text)
            manifest = session.models.version("m").manifest
            metrics = {name: value for name, value in manifest.metrics.items() if value is not None}
            found.append((manifest.calibrators, predicted(session, path).tolist(), metrics, manifest.evaluation["ece"]))
    assert found[0][:2] == found[1][:2]
    assert found[0][2] == pytest.approx(found[1][2], rel=1e-12)  # sums of batches that are counted together
    assert found[0][3] == pytest.approx(found[1][3], rel=1e-12)


@costly
def test_the_gate_judges_predictions_before_and_after(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, f"{BY} {EVALUATED} RELEASE WHEN ece < 0.2 AND raw.ece < 0.3 AND field_rce(site) < 5")
    with pytest.raises(TrainingError, match=r"raw\.ece is 0\.\d+"):
        trained(embedded, path, f"{BY} {EVALUATED} RELEASE WHEN raw.ece < 0.00001 OR raw.pcopc(click) > 9")
    with pytest.raises(TrainingError, match=r"field_ce\(site\) is 0\.\d+"):
        trained(embedded, path, f"{BY} {EVALUATED} RELEASE WHEN field_ce(site) < 0.00001")


@pytest.mark.parametrize(
    ("using", "clauses", "message"),
    [
        ("linear_regression", "CALIBRATE", "for probabilities of labels of 0 or 1"),
        ("linear_regression", "WITH (negatives_kept = 0.5)", "for probabilities of labels of 0 or 1"),
        ("owlqn", "CALIBRATE", "learns from all rows at once"),
        ("xftrl", "CALIBRATE (by = (site, user))", "takes one column"),
        (
            "xftrl",
            "CALIBRATE (by = (nothing))",
            "takes a categorical column that the model learns from.*site, user; got nothing",
        ),
        ("xftrl", "CALIBRATE (method = 'spline')", "isotonic"),
        ("xftrl", "WITH (negatives_kept = 0)", "negatives_kept"),
        ("xftrl", f"{EVALUATED} RELEASE WHEN raw.ece < 1", "nothing is calibrated"),
        ("xftrl", f"{EVALUATED} RELEASE WHEN field_ce(user) < 1", "BY user"),
        ("xftrl", f"CALIBRATE {EVALUATED} RELEASE WHEN raw.auc > 1", "pcopc and ece"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_before_work_starts(
    embedded: xpsql.Session, path: Path, using: str, clauses: str, message: str
) -> None:
    with pytest.raises(StatementError, match=message):
        trained(embedded, path, clauses, using)


@costly
def test_an_older_xpsql_does_not_serve_what_it_would_misread(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, BY)
    folder = embedded.models.version("m").folder
    assert read_json(folder / "manifest.json")["requires"] == ["calibrated"]


@lengthy
def test_a_damaged_file_of_biases_is_an_error(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, BY)
    (file,) = (embedded.models.version("m").folder / "calibration").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        predicted(embedded, path)


@costly
def test_graphs_and_explanations_have_the_calibration(embedded: xpsql.Session, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    trained(embedded, path, BY)
    for kind in ("onnx", "serving"):
        embedded.sql(f"EXPORT MODEL m TO '{tmp_path / kind}' FORMAT {kind}")
        described = read_json(tmp_path / kind / "model.json")
        assert described["largest_difference"] < 1e-6
        assert described["calibration"]["biases_of"] == "site"
    query = f"SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, (SELECT site, user FROM parquet.`{path}` LIMIT 50), 3)"
    for row in embedded.sql(query).arrow().to_pylist():
        added = sum(one["attribution"] for one in row["top_feature_attributions"])
        assert {"(calibration)"} <= {one["feature"] for one in row["top_feature_attributions"]}
        assert row["prediction_value"] == pytest.approx(row["baseline_prediction_value"] + added, abs=1e-5)
        p = row["predicted_click"]
        assert row["prediction_value"] == pytest.approx(np.log(p / (1 - p)), abs=1e-4)


SHOWN: Callable[[xpsql.Session], str] = lambda session: str(session.sql("SHOW TRAIN MODEL m"))  # noqa: E731


def test_the_statement_is_shown_with_the_clause(embedded: xpsql.Session, path: Path) -> None:
    trained(embedded, path, BY)
    assert "CALIBRATE (by = (site))" in SHOWN(embedded)
    rows = {row["property"]: row["value"] for row in embedded.sql("DESCRIBE MODEL m").arrow().to_pylist()}
    assert rows["calibrate"] == "method = 'isotonic', by = (site)"

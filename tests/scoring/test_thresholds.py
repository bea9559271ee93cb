"""ML.ROC_CURVE and ML.CONFUSION_MATRIX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics

import xpsql
from tests.cases import slow_elsewhere
from tests.training.log import embedded, log, session, write  # noqa: F401  a fixture
from xpsql.platform.errors import StatementError


@pytest.fixture
def path(session: xpsql.Session, tmp_path: Path) -> Path:  # noqa: F811
    path = write(log(2000), tmp_path / "log.parquet", row_group_rows=1000)
    session.sql(f"TRAIN MODEL m USING xftrl IGNORE (ts) AS SELECT * EXCEPT (scores) FROM parquet.`{path}`")
    return path


@slow_elsewhere
def test_the_curve_and_the_matrix_are_those_of_scikit_learn(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    rows = session.sql(f"SELECT label, predicted_label AS p FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{path}`))").arrow()
    labels, predictions = rows["label"].to_numpy(), rows["p"].to_numpy()
    curve = session.sql(
        f"SELECT * FROM ML.ROC_CURVE(MODEL m, (SELECT * FROM parquet.`{path}`)) ORDER BY threshold DESC"
    ).arrow()
    alarms, hits, thresholds = sklearn.metrics.roc_curve(labels, predictions, drop_intermediate=False)
    np.testing.assert_allclose(curve["threshold"], thresholds[1:], rtol=1e-6)
    np.testing.assert_allclose(curve["recall"], hits[1:])
    np.testing.assert_allclose(curve["false_positive_rate"], alarms[1:])
    whole = {
        name: curve[name].to_numpy() for name in ("true_positives", "false_positives", "true_negatives", "false_negatives")
    }
    assert set(sum(whole.values())) == {2000}
    for threshold in (0.3, 0.5):
        call = f"ML.CONFUSION_MATRIX(MODEL m, (SELECT * FROM parquet.`{path}`), {threshold})"
        matrix = session.sql(f"SELECT * FROM {call} ORDER BY expected").arrow()
        found = np.stack([matrix["predicted_0"].to_numpy(), matrix["predicted_1"].to_numpy()], 1)
        assert found.tolist() == sklearn.metrics.confusion_matrix(labels, predictions >= threshold).tolist()


@embedded
def test_of_labels_that_are_all_one_a_rate_is_null(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    call = f"ML.ROC_CURVE(MODEL m, (SELECT * EXCEPT (scores) FROM parquet.`{path}` WHERE label = 1))"
    curve = session.sql(f"SELECT * FROM {call}").arrow()
    assert curve["false_positive_rate"].null_count == len(curve)
    assert max(curve["recall"].to_pylist()) == 1


@embedded
@pytest.mark.parametrize("threshold", ["2", "'high'", "true"])
def test_a_threshold_is_a_number_from_0_to_1(session: xpsql.Session, path: Path, threshold: str) -> None:  # noqa: F811
    with pytest.raises(StatementError, match="takes a threshold from 0 to 1"):
        session.sql(f"SELECT * FROM ML.CONFUSION_MATRIX(MODEL m, (SELECT * FROM parquet.`{path}`), {threshold})")


@embedded
def test_models_of_numbers_are_refused(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    session.sql(f"TRAIN MODEL n USING linear_regression IGNORE (ts) AS SELECT * FROM parquet.`{path}`")
    with pytest.raises(StatementError, match=r"ML.ROC_CURVE needs a label of 0 and 1, or of classes"):
        session.sql(f"SELECT * FROM ML.ROC_CURVE(MODEL n, (SELECT * FROM parquet.`{path}`))")

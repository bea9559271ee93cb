"""Labels that are one of several classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sklearn.metrics

import xpsql
from tests.cases import costly, lengthy, quick, slow_elsewhere
from tests.training.log import session, write  # noqa: F401  a fixture
from xpsql.algorithms.losses import SOFTMAX
from xpsql.platform.errors import DataError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.metrics.metrics import LabelMetrics, Targets
from xpsql.platform.training.preparation import classes

CLASSES = np.array(["news", "sport", "art"])
ROWS = 6000
ALGORITHMS = {
    "xftrl": "",
    "logistic_regression": "",
    "fm": "",
    "xnn (booster = (32, 16), hidden = (16, 8))": "",
    "wide_deep (hidden = (16, 8))": "",
    "deepfm (hidden = (16, 8))": "",
    "dcn (hidden = (16, 8))": "",
    "din (target = (user), history = (seen), hidden = (16, 8))": "SHARE",
    "xgboost (rounds = 10, max_depth = 6, columns = 1, l2 = 1)": "",
}


def articles(rows: int = ROWS, seed: int = 3) -> pa.Table:
    """Return what users read, whose class depends on the user and on the hour; `number` is 3, 4 or 5."""
    random = np.random.default_rng(seed)
    users, hours = random.integers(0, 40, rows), random.integers(0, 24, rows)
    taste = np.random.default_rng(0)
    scores = taste.normal(0, 2, (40, 3))[users] + taste.normal(0, 1, (24, 3))[hours]
    found = (scores + random.gumbel(size=(rows, 3))).argmax(axis=1)
    return pa.table(
        {
            "user": [f"u{user}" for user in users],
            "hour": hours.astype(np.int32),
            "seen": [[f"u{user}"] for user in users],
            "category": CLASSES[found],
            "number": pa.array(found + 3, pa.int32()),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(articles(), tmp_path / "articles.parquet")


@pytest.fixture
def embedded(tmp_path: Path) -> xpsql.Session:
    return xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter())


def entropy(labels: np.ndarray) -> float:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * np.log(shares)).sum())


@lengthy
@slow_elsewhere
def test_metrics_and_predictions_are_those_of_scikit_learn(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    log = f"(SELECT user, hour, category FROM parquet.`{path}`)"
    plan = session.sql(f"EXPLAIN TRAIN MODEL m USING xftrl LABEL category AS {log[1:-1]}").arrow()
    reported = dict(zip(plan["property"].to_pylist(), plan["value"].to_pylist(), strict=True))
    assert reported["classes"] == "3: 'art', 'news', 'sport'"
    assert reported["table weights"].startswith("3 floats")
    (row,) = session.sql(f"TRAIN MODEL m USING xftrl LABEL category AS {log[1:-1]}").arrow().to_pylist()
    rows = session.sql(f"SELECT * FROM ML.PREDICT(MODEL m, {log})").arrow()
    labels, reported_class = rows["category"].to_pylist(), rows["predicted_category"].to_pylist()
    maps = [dict(one) for one in rows["predicted_category_probabilities"].to_pylist()]
    assert reported_class == [max(one, key=lambda name: one[name]) for one in maps]
    probabilities = np.array([[one[name] for name in ("art", "news", "sport")] for one in maps])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    curves = session.sql(f"SELECT * FROM ML.ROC_CURVE(MODEL m, {log}) ORDER BY class, threshold DESC").arrow()
    assert curves["label"].unique().to_pylist() == ["category"]
    for name, mine in zip(("art", "news", "sport"), probabilities.T, strict=True):  # each class against all others
        curve = curves.filter(pc.equal(curves["class"], name))
        alarms, hits, thresholds = sklearn.metrics.roc_curve(np.array(labels) == name, mine, drop_intermediate=False)
        np.testing.assert_allclose(curve["threshold"], thresholds[1:], rtol=1e-6)
        np.testing.assert_allclose(curve["recall"], hits[1:])
        np.testing.assert_allclose(curve["false_positive_rate"], alarms[1:])
    probabilities /= probabilities.sum(axis=1, keepdims=True)  # float32 sums to one less exactly than scikit-learn wants
    (found,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, {log})").arrow().to_pylist()
    assert found["logloss"] == pytest.approx(
        sklearn.metrics.log_loss(labels, probabilities, labels=["art", "news", "sport"]), rel=1e-5
    )
    assert found["normalized_entropy"] == pytest.approx(found["logloss"] / entropy(np.array(labels)))
    assert found["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(labels, reported_class))
    for name in ("precision", "recall", "f1"):
        wanted = getattr(sklearn.metrics, f"{name}_score")(labels, reported_class, average="macro")
        assert found[name] == pytest.approx(wanted)
    assert found["auc"] is None
    assert found["examples"] == ROWS
    matrix = session.sql(f"SELECT * FROM ML.CONFUSION_MATRIX(MODEL m, {log}) ORDER BY expected").arrow()
    assert matrix["expected"].to_pylist() == ["art", "news", "sport"]
    counts = np.stack([matrix[f"predicted_{name}"].to_numpy() for name in ("art", "news", "sport")], axis=1)
    np.testing.assert_array_equal(counts, sklearn.metrics.confusion_matrix(labels, reported_class))
    assert row["logloss"] < 0.9 * entropy(np.array(labels))  # of the first pass, each example before it is learned from


@lengthy
@pytest.mark.parametrize("algorithm", quick(ALGORITHMS, [*ALGORITHMS][::3]))
def test_every_algorithm_of_classes_learns_them(embedded: xpsql.Session, path: Path, algorithm: str) -> None:
    share = " WITH (share = (seen AS user))" if ALGORITHMS[algorithm] else ""
    columns = "user, hour, category" + (", seen" if share else "")
    with embedded as local:
        log = f"SELECT {columns} FROM parquet.`{path}`"
        local.sql(f"TRAIN MODEL m USING {algorithm} LABEL category{share} AS {log}")
        (found,) = local.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, ({log}))").arrow().to_pylist()
    assert found["normalized_entropy"] < 0.75
    assert found["accuracy"] > 0.7


@costly
def test_integers_are_classes_where_the_statement_says_so(embedded: xpsql.Session, path: Path) -> None:
    log = f"SELECT user, hour, number FROM parquet.`{path}`"
    with embedded as local:
        with pytest.raises(StatementError, match="must be 0 or 1"):
            local.sql(f"TRAIN MODEL m USING xftrl LABEL number AS {log}")
        train = f"TRAIN OR REPLACE MODEL m USING xftrl LABEL number WITH (task = 'multiclass') AS {log}"
        local.sql(train + " ORDER BY user, hour")  # staged
        rows = local.sql(f"SELECT * FROM ML.PREDICT(MODEL m, ({log})) LIMIT 1").arrow()
        assert rows.schema.field("predicted_number").type == pa.int32()
        assert [key for key, _ in rows["predicted_number_probabilities"][0].as_py()] == [3, 4, 5]
        before = local.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow().num_rows
        local.sql(f"CONTINUE MODEL m AS {log}")
        assert local.sql("SELECT * FROM ML.WEIGHTS(MODEL m)").arrow().num_rows == before
        with pytest.raises(DataError, match=r"LABEL number must be one of the model.s classes, 3, 4, 5; .* has 9\. .*TRAIN"):
            local.sql("CONTINUE MODEL m AS SELECT user, hour, 9 AS number FROM (" + log + ")")
        with pytest.raises(StatementError, match="is string and was int"):
            local.sql("CONTINUE MODEL m AS SELECT user, hour, 'x' AS number FROM (" + log + ")")
        with pytest.raises(DataError, match="row 0 of the query has 7"):
            local.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, (SELECT user, hour, 7 AS number FROM ({log})))")
        described = local.sql("DESCRIBE MODEL m").arrow().to_pylist()
        assert {"property": "classes", "value": "3, 4, 5"} in described


@lengthy
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("TRAIN MODEL n USING svm LABEL category AS {log}", "has classes, and svm learns numbers"),
        ("TRAIN MODEL n USING xftrl (loss = 'hinge') LABEL category AS {log}", "not for a label with classes"),
        ("TRAIN MODEL n USING xftrl LABEL user AS {log}", r"more than 5 values; a label has 2 to 5 classes"),
        ("TRAIN MODEL n USING xftrl LABEL one AS SELECT *, 'a' AS one FROM ({log})", "only 'a'"),
        ("TRAIN MODEL n USING xftrl LABEL category, user AS {log}", "expects a number"),
        ("TRAIN MODEL n USING xftrl LABEL category WITH (base_rate = 0.1) AS {log}", "each class begins at its own share"),
        (
            "TRAIN MODEL n USING xftrl LABEL category EVALUATE EVERY 5 BATCHES ON 5 BATCHES RELEASE WHEN auc > 0.5 AS {log}",
            "accur",
        ),
        ("SELECT * FROM ML.CONFUSION_MATRIX(MODEL m, ({log}), 0.3)", "at no threshold"),
        ("SELECT * FROM ML.EXPLAIN_PREDICT(MODEL m, ({log}), 3)", "one for each of 3 classes"),
        ("SELECT * FROM ML.COMPARE(MODEL m, MODEL m, ({log}))", "several classes"),
    ],
)
def test_what_means_nothing_for_classes_is_refused(
    embedded: xpsql.Session, path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, words: str
) -> None:
    monkeypatch.setattr(classes, "MOST_CLASSES", 5)
    log = f"SELECT user, hour, category FROM parquet.`{path}` LIMIT 500"
    with embedded as local:
        if "MODEL m" in statement:
            local.sql(f"TRAIN MODEL m USING xftrl LABEL category AS {log}")
        with pytest.raises(StatementError, match=words):
            local.sql(statement.format(log=log))


@costly
def test_classes_are_held_out_judged_and_measured_by_slot(embedded: xpsql.Session, path: Path) -> None:
    log = f"SELECT user, hour, category FROM parquet.`{path}`"
    with embedded as local:
        local.sql(
            "TRAIN MODEL m USING xftrl LABEL category VALIDATE ON 0.2 EVALUATE EVERY 10 BATCHES ON 5 BATCHES "
            f"RELEASE WHEN validation.accuracy > 0.6 AND logloss < 1 WITH (passes = 2) AS {log}"
        )
        info = local.sql("SELECT * FROM ML.TRAINING_INFO(MODEL m)").arrow()
        assert info.num_rows
        rows = local.sql(f"SELECT * FROM ML.FEATURE_IMPORTANCE(MODEL m, ({log}))").arrow().to_pylist()
        assert [row["slot"] for row in rows] == ["user", "hour"]
        assert rows[1]["loss_increase"] > 0


@costly
def test_passes_of_classes_are_judged_by_their_log_loss(embedded: xpsql.Session, path: Path) -> None:
    with embedded as local:
        local.sql(
            "TRAIN MODEL m USING logistic_regression (learning_rate = 0.02) LABEL category VALIDATE ON 0.2 "
            f"WITH (passes = 4, patience = 1) AS SELECT user, hour, category FROM parquet.`{path}`"
        )
        learned = local.models.version("m").manifest.learned
        validated = "SELECT logloss FROM ML.TRAINING_INFO(MODEL m) WHERE validation ORDER BY `pass`"
        losses = local.sql(validated).arrow()["logloss"].to_pylist()
    assert len(losses) > 2
    assert learned.best_pass == losses.index(min(losses)) > 0


def test_the_loss_is_that_of_softmax_and_its_gradient_the_difference_of_probabilities() -> None:
    import jax

    random = np.random.default_rng(5)
    scores, labels = random.normal(size=(7, 4)).astype(np.float32), random.integers(0, 4, (7, 1)).astype(np.float32)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    chosen = np.eye(4)[labels[:, 0].astype(int)]
    np.testing.assert_allclose(SOFTMAX.value(scores, labels), -np.log((shares * chosen).sum(axis=1))[:, None], rtol=1e-5)
    np.testing.assert_allclose(SOFTMAX.link(scores), shares, rtol=1e-5)
    gradient = jax.grad(lambda scores: SOFTMAX.value(scores, labels).sum())(scores)
    np.testing.assert_allclose(gradient, shares - chosen, atol=1e-6)


def test_what_several_workers_counted_of_classes_adds_up() -> None:
    random, targets = np.random.default_rng(5), Targets.of(["category"], "multiclass", grouped=False)
    labels = random.integers(0, 4, (1, 90)).astype(np.float32)
    predictions = random.dirichlet(np.ones(4), 90).T.astype(np.float32)
    whole, parts = LabelMetrics(targets), LabelMetrics(targets)
    whole.add(labels, predictions)
    for part in np.split(np.arange(90), [20, 20, 55]):
        one = LabelMetrics(targets)
        one.add(labels[:, part], predictions[:, part])
        parts.take(one.tallies())
    assert parts.as_dict() == pytest.approx(whole.as_dict())

"""ML.OFF_POLICY: a log of decisions is judged as its formulas say, and what is no such log is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly_after_first
from tests.notes import Notes
from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.errors import DataError, StatementError

REQUESTS, ADS = 3000, 4


def write_log(path: Path) -> None:
    """Write requests of users that like one ad each, which a policy of known propensities decided."""
    random = np.random.default_rng(3)
    user, ad = np.repeat(np.arange(REQUESTS) % 8, ADS), np.tile(np.arange(ADS), REQUESTS)
    propensity = np.tile([0.4, 0.3, 0.2, 0.1], REQUESTS)
    shown = random.choice(ADS, REQUESTS, p=[0.4, 0.3, 0.2, 0.1])
    chosen = ad == np.repeat(shown, ADS)
    click = (random.random(REQUESTS * ADS) < np.where(user % ADS == ad, 0.4, 0.1)) & chosen
    table = pa.table(
        {
            "request": np.repeat(np.arange(REQUESTS), ADS),
            "user": [f"u{one}" for one in user],
            "ad": [f"a{one}" for one in ad],
            "chosen": chosen,
            "propensity": propensity,
            "click": pa.array(click.astype(np.int32), mask=~chosen),
        }
    )
    order = random.permutation(REQUESTS * ADS)  # candidates of a request need not stand together
    pq.write_table(table.take(order), path, row_group_size=5000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("log") / "log.parquet"
    write_log(found)
    return found


TRAIN = """
TRAIN MODEL ctr USING xftrl LABEL click CROSS (user * ad) WITH (workers = 1, passes = 3) AS
SELECT user, ad, click FROM parquet.`{}` WHERE chosen AND request % 3 = 0
"""
NAMES = "REQUEST request, CHOSEN chosen, PROPENSITY propensity"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=Notes()) as opened:
        opened.sql(TRAIN.format(path))
        yield opened


def judged(session: xpsql.Session, arguments: str) -> dict[str, dict[str, Any]]:  # noqa: F811
    rows = session.sql(f"SELECT * FROM ML.OFF_POLICY(MODEL ctr, {arguments})").arrow().to_pylist()
    return {row["estimator"]: row for row in rows}


def later(path: Path, more: str = "*") -> str:
    return f"(SELECT {more} FROM parquet.`{path}` WHERE request % 3 > 0), {NAMES}, WITH (overlap = true)"


@costly_after_first
def test_each_estimate_follows_its_formula_on_both_engines(session: xpsql.Session, path: Path) -> None:  # noqa: F811
    session.sql(TRAIN.format(path))
    found = judged(session, f"{later(path)}, POLICY 'softmax(0.5)', CLIP 3, ACTION ad")
    query = f"SELECT * FROM ML.PREDICT(MODEL ctr, (SELECT * FROM parquet.`{path}` WHERE request % 3 > 0))"
    rows = session.sql(query).arrow().to_pandas().sort_values(["request", "ad"])
    shape = (-1, ADS)
    expected, chosen = rows.predicted_click.to_numpy().reshape(shape), rows.chosen.to_numpy().reshape(shape)
    logit = np.log(expected / (1 - expected))
    policy = np.exp(logit / 0.5)
    policy = 0.99 * policy / policy.sum(axis=1, keepdims=True) + 0.01 / ADS
    weight = (policy / rows.propensity.to_numpy().reshape(shape))[chosen]
    reward, cut = rows.click.to_numpy().reshape(shape)[chosen], np.minimum(weight, 3)
    by_model, error = (policy * expected).sum(axis=1), reward - expected[chosen]
    values = {
        "ips": (cut * reward).mean(),
        "snips": (cut * reward).sum() / cut.sum(),
        "dr": (by_model + cut * error).mean(),
        "switch": (by_model + np.where(weight > 3, 0, weight) * error).mean(),
    }
    assert {name: row["value"] for name, row in found.items()} == pytest.approx(values, rel=1e-9)
    for row in found.values():
        assert row["logged"] == pytest.approx(reward.mean())
        assert row["gain"] == pytest.approx(row["value"] - row["logged"])
        assert row["low"] < row["value"] < row["high"]
        assert (row["requests"], row["groups"], row["unsupported"]) == (2000, None, 0)
        assert row["effective_rows"] == pytest.approx(cut.sum() ** 2 / (cut**2).sum())
        assert row["max_weight"] == pytest.approx(weight.max())


def test_a_policy_that_knows_what_users_like_is_found_to_earn_more(embedded: xpsql.Session, path: Path) -> None:
    picks = embedded.sql(
        f"SELECT user, max_by(ad, predicted_click) AS ad FROM ML.PREDICT(MODEL ctr, TABLE parquet.`{path}`) GROUP BY user"
    ).arrow()
    truth = np.mean([0.4 if int(row["user"][1:]) % ADS == int(row["ad"][1:]) else 0.1 for row in picks.to_pylist()])
    for row in judged(embedded, later(path)).values():
        assert row["low"] < truth < row["high"]
        assert row["gain_low"] > 0.1
    even = judged(embedded, f"{later(path)}, POLICY 'epsilon(1)'")  # any ad: 0.175, as the log
    assert even["dr"]["low"] < 0.175 < even["dr"]["high"]
    assert even["dr"]["gain_low"] < 0 < even["dr"]["gain_high"]


def test_groups_are_drawn_together(embedded: xpsql.Session, path: Path) -> None:
    (row, *_) = judged(embedded, f"{later(path)}, GROUP user").values()
    assert row["groups"] == 8


def test_what_the_log_could_not_show_is_counted(embedded: xpsql.Session, path: Path) -> None:
    never = later(path, "* EXCEPT (propensity), IF(ad = 'a3', 0.0, propensity / 0.9) AS propensity").replace(
        "> 0)", "> 0 AND NOT request IN (SELECT request FROM parquet.`" + str(path) + "` WHERE chosen AND ad = 'a3'))"
    )
    (row, *_) = judged(embedded, never).values()
    assert row["unsupported"] == pytest.approx(0.25, abs=0.03)  # of two users of eight
    unknown = later(path, "* EXCEPT (propensity), IF(chosen, propensity, NULL) AS propensity")
    (row, *_) = judged(embedded, unknown).values()
    assert row["unsupported"] is None


def test_few_rows_are_no_estimate(embedded: xpsql.Session, path: Path) -> None:
    (row, *_) = judged(embedded, later(path).replace("> 0)", "> 0 AND request < 100)")).values()
    assert row["value"] is row["low"] is row["gain"] is row["gain_low"] is None
    assert 0 < row["effective_rows"] < 100
    assert isinstance(embedded.reporter, Notes)
    assert "are worth as much as" in embedded.reporter.notes[-1]


def test_a_version_is_not_judged_by_files_that_it_learned_from(embedded: xpsql.Session, path: Path) -> None:
    with pytest.raises(StatementError, match=r"ctr v1 learned from .*log.parquet, which the query reads"):
        judged(embedded, later(path).replace(", WITH (overlap = true)", ""))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TABLE parquet.`{}`", "with REQUEST, and the query returns no column served_request"),
        ("TABLE parquet.`{}`, REQUEST request, CHOSEN choosen", r"no column choosen\..* Did you mean chosen"),
        (
            "(SELECT * EXCEPT (propensity), 'x' AS propensity FROM parquet.`{}`), {names}",
            "PROPENSITY expects a number or boolean; propensity is string. CAST it in the query",
        ),
        ("(SELECT * EXCEPT (click), 'x' AS click FROM parquet.`{}`), {names}", "REWARD expects a number or boolean"),
        ("(SELECT * EXCEPT (chosen), 'x' AS chosen FROM parquet.`{}`), {names}", "CHOSEN expects a number or boolean"),
        ("TABLE parquet.`{}`, POLICY 'best'", "Expected a policy"),
        ("TABLE parquet.`{}`, POLICY greedy", "Expected a policy, such as 'greedy'"),
        ("TABLE parquet.`{}`, CLIP 0", "CLIP expects the largest weight"),
        ("TABLE parquet.`{}`, CLIP 1, CLIP 2", "CLIP is given twice"),
        ("TABLE parquet.`{}`, WITH (overlaps = true)", "takes only WITH"),
    ],
)
def test_calls_are_refused_before_rows_are_scored(embedded: xpsql.Session, path: Path, arguments: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        judged(embedded, arguments.format(path, names=NAMES))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("* EXCEPT (chosen), false AS chosen", r"chosen must be true in one row of each request; the request \d+ has 0"),
        ("* EXCEPT (chosen), request AS chosen", "chosen must be true or false"),
        ("* EXCEPT (propensity), 0.0 AS propensity", "propensity must be above 0"),
        ("* EXCEPT (click), CAST(NULL AS INT) AS click", r"click must be a finite number .* has NULL or NaN"),
        ("* EXCEPT (request), CAST(NULL AS INT) AS request", "request is NULL in 8,000 rows"),
        ("* EXCEPT (ad), 'a1' AS ad", "ad comes twice in the request"),
    ],
)
def test_rows_that_are_no_decisions_are_refused(embedded: xpsql.Session, path: Path, columns: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        judged(embedded, f"{later(path, columns)}, ACTION ad")


def test_a_model_without_labels_is_refused(embedded: xpsql.Session, path: Path) -> None:
    embedded.sql(f"TRAIN MODEL ranks USING pagerank SOURCE user TARGET ad AS SELECT user, ad FROM parquet.`{path}`")
    with pytest.raises(StatementError, match="needs a model of labels of 0 and 1, or of numbers; ranks has none"):
        embedded.sql(f"SELECT * FROM ML.OFF_POLICY(MODEL ranks, (SELECT *, user AS node FROM parquet.`{path}`), {NAMES})")


def test_a_log_of_no_rows_is_refused(embedded: xpsql.Session, path: Path) -> None:
    with pytest.raises(DataError, match="the query returns none"):
        judged(embedded, later(path).replace("> 0)", "> 7)"))

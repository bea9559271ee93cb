"""Histories that are refreshed while a training and a service read them, and networks of any kind that read them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from pathlib import Path

import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.histories.test_stored_histories_in_models import ARRAYS, QUERY, USING, made_session, predicted, weights
from tests.training.test_resume import reported_at_once
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

__all__ = ["made_session", "reported_at_once"]
ONE = "WITH (workers = 1, shards = 1"
MORE = "INSERT INTO events SELECT user, 200, item, category, price, tags FROM events LIMIT 300; REFRESH HISTORY clicks"


class Refreshing(SilentReporter):
    """Refreshes the history, more often than versions are kept, while a training reports its progress."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse, self.refreshed = warehouse, 0

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if self.refreshed < 5:
            self.refreshed += 1
            with xpsql.connect(self.warehouse, reporter=SilentReporter()) as other:
                other.sql(MORE)


@lengthy
def test_a_training_reads_the_version_that_it_began_with_however_often_the_history_is_refreshed(session: xpsql.Session) -> None:
    train = f"TRAIN MODEL m {USING} LABEL click {ONE}, batch_size = 8) AS {QUERY}"
    session.sql(train)
    whole = weights(session, "m")
    session.sql("DROP MODEL m")
    reporter = Refreshing(session.models.warehouse)
    with xpsql.connect(session.models.warehouse, reporter=reporter) as training:
        training.sql(train)
        assert reporter.refreshed == 5
        assert weights(training, "m") == whole
        assert training.models.version("m").manifest.histories[0].version == 1


@costly
def test_a_service_answers_by_the_newest_version_of_a_history_as_ml_predict_does(session: xpsql.Session) -> None:
    session.sql(f"TRAIN MODEL m {USING} LABEL click {ONE}) AS {QUERY}")
    query = QUERY + " WHERE user = 'u3' AND ts > 200 ORDER BY ts LIMIT 5"
    rows = session.sql(query).arrow().to_pylist()
    service = Service(
        Served(session.models, ["m"], None, print), RequestLimits(), None, None, traceback.print_exc, lambda *asked: asked
    )
    seen = []
    for _ in range(5):
        instances = [{name: row[name] for name in ("user", "ts", "item", "category")} for row in rows]
        response = service.handle("POST", "/v1/models/m:predict", {}, json.dumps({"instances": instances}).encode())
        seen.append(json.loads(response.body)["predictions"])
        assert seen[-1] == predicted(session, "m", query)
        session.sql(MORE)
    assert seen[0] != seen[1]


NETWORK = """
import jax.numpy as jnp

def init(key, features):
    return {"scale": jnp.ones(1)}

def apply(parameters, x):
    (vectors, mask), = x.history.values()
    pooled = (vectors * mask[..., None]).sum(axis=1)
    return (pooled * x.target).sum(axis=-1, keepdims=True) * parameters["scale"] + x.wide
"""


@costly
@pytest.mark.parametrize("name", ["xnn", "network"])
def test_other_networks_learn_a_stored_history_as_its_arrays(session: xpsql.Session, tmp_path: Path, name: str) -> None:
    (tmp_path / "network.py").write_text(NETWORK, encoding="utf-8")
    using = {
        "xnn": "xnn (pooled = ({0}), pooled_length = 9, clusters = 2, hidden = (4), dim = 4)",
        "network": f"network (file = '{tmp_path / 'network.py'}', target = (item), history = ({{0}}), length = 9, dim = 4)",
    }[name]
    one = f"LABEL click IGNORE (ts) {ONE}, share = ({{0}} AS item)) AS "
    session.sql(f"TRAIN MODEL spans USING {using.format('clicks.item')} {one.format('clicks.item')} {QUERY}")
    arrays = QUERY.replace(" FROM", f", {ARRAYS.partition(', HISTORY')[0]} FROM")
    session.sql(f"TRAIN MODEL arrays USING {using.format('items')} {one.format('items')} {arrays}")
    assert weights(session, "spans") == weights(session, "arrays")
    assert predicted(session, "spans") == pytest.approx(predicted(session, "arrays", arrays), abs=1e-6)

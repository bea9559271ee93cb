"""Values of vertices from the service: what ML.PREDICT gives, as numbers, objects and tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import xpsql
from tests.serving.conftest import Client, failing
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql("CREATE TABLE links AS SELECT concat('p', id % 7) AS src, concat('p', id % 5) AS dst FROM range(40)")
        for model, using in (("ranks", "pagerank"), ("parts", "components")):
            session.sql(f"TRAIN MODEL {model} USING {using} SOURCE src TARGET dst AS SELECT src, dst FROM links")
        yield session


@pytest.mark.parametrize(("model", "kind"), [("ranks", "FP64"), ("parts", "INT64")])
def test_the_service_gives_the_values_of_ml_predict(graphs: xpsql.Session, model: str, kind: str) -> None:
    nodes = [f"p{number}" for number in range(8)]
    query = f"SELECT * FROM ML.PREDICT(MODEL {model}, (SELECT concat('p', id) AS node FROM range(8) ORDER BY id))"
    wanted = dict(zip(*graphs.sql(query).arrow().to_pydict().values(), strict=True))
    for half in (False, True):
        client = Client(Service(Served(graphs.models, [model], None, print, half), RequestLimits(), None, None, failing))
        found = client.predict({"instances": [{"node": node} for node in nodes]}, model)
        assert dict(zip(nodes, found, strict=True)) == wanted
        assert found[7] is None
    tensor = {"name": "node", "shape": [2], "datatype": "BYTES", "data": ["p1", "p7"]}
    (output,) = json.loads(client.post(f"/v2/models/{model}/infer", {"inputs": [tensor]}).body)["outputs"]
    assert (output["datatype"], output["data"][0]) == (kind, wanted["p1"])
    assert output["data"][1] == (None if kind == "FP64" else -1)

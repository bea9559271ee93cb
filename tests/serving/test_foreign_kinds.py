"""A kind of slot that the product does not have is served: one file and one line, over types that native code reads, too."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.input.kinds.remainder import REMAINDER, REMAINDERS
from tests.serving.conftest import Client, failing
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.input import kinds
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.arrow_stream import CONTENT_TYPE, stream_of
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

ROWS = "SELECT word, number, parts, price, CAST(number % 3 = 0 AS INT) AS label FROM log"
LOG = """
SELECT concat('w', repeat('x', CAST(id % 5 AS INT))) AS word, id % 11 AS number, array(id % 4, id % 7) AS parts,
    CAST(id % 13 AS DOUBLE) AS price FROM range(900)
"""
MODELS = {"sums": "xftrl (alpha = 0.5)", "network": "xnn (hidden = 4, dim = 2)"}


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "KINDS", (REMAINDER, REMAINDERS, *kinds.KINDS))


@pytest.fixture
def session(foreign: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        for name, using in MODELS.items():
            session.sql(f"TRAIN MODEL {name} USING {using} LABEL label AS {ROWS}")
        yield session


@lengthy
def test_requests_get_the_numbers_of_ml_predict_for_a_foreign_kind(session: xpsql.Session) -> None:
    client = Client(Service(Served(session.models, list(MODELS), None, print), RequestLimits(), None, None, failing))
    rows = session.sql("SELECT word, number, parts, price FROM log LIMIT 20").arrow()
    for model in MODELS:
        slots = session.sql(f"SELECT slot, kind, features FROM ML.FEATURE_INFO(MODEL {model})").arrow().to_pylist()
        found = {row["slot"]: (row["kind"], row["features"]) for row in slots}
        assert (found["number"], found["parts"]) == (("remainder", 3), ("remainders", 3))
        query = f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, (SELECT word, number, parts, price FROM log LIMIT 20))"
        wanted = session.sql(query).arrow().column(0).to_numpy()
        assert len(set(wanted)) > 5
        np.testing.assert_allclose(client.predict({"instances": rows.to_pylist()}, model), wanted, atol=1e-6)
        body = stream_of({name: rows.column(name).combine_chunks() for name in rows.schema.names})
        answer = client.post(f"/v1/models/{model}:predict", body, content_type=CONTENT_TYPE)
        stream = pa.ipc.open_stream(answer.body).read_all()
        np.testing.assert_allclose(stream.column(0).to_numpy(), wanted, atol=1e-6)
    assert json.loads(client.get("/v2/models/sums").body)["inputs"][0]["datatype"] == "BYTES"


@costly
def test_values_of_a_foreign_scalar_kind_are_no_texts_that_a_cross_joins(session: xpsql.Session) -> None:
    with pytest.raises(StatementError, match=r"number is remainder \(bigint\)"):
        session.sql(f"TRAIN MODEL crossed USING xftrl LABEL label CROSS (number * parts) AS {ROWS}")
    session.sql(
        f"TRAIN MODEL crossed USING xftrl LABEL label CROSS (parts * parts2) AS SELECT *, parts AS parts2 FROM ({ROWS})"
    )


def test_a_model_with_a_kind_that_is_not_here_says_so(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "KINDS", kinds.KINDS[2:])
    with pytest.raises(ModelError, match=r"a slot of the kind 'remainder'.*Use the xpsql that trained it"):
        Served(session.models, ["sums"], None, print)
    with pytest.raises(ModelError, match=r"a slot of the kind 'remainder'.*Use the xpsql that trained it"):
        session.sql("SELECT * FROM ML.PREDICT(MODEL sums, TABLE log)")

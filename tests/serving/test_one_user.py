"""A user and many candidates: what the user's history comes to is computed once, and the scores are those of single rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql.platform.serving.loaded as loaded_module
from tests.cases import lengthy
from tests.serving.conftest import LOG, Client, failing, loaded_of
from xpsql import Session
from xpsql.platform.input.batches import Batch
from xpsql.platform.scoring.by_algorithm import AlgorithmScorer
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.loaded import Loaded
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.platform.training.compiled import compilations

HISTORY, OTHER = ["t1", "t2", "t0"], ["t3"]
CANDIDATES = [{"user": f"u{i % 11}", "price": i / 7} for i in range(20)]
SIZES = (1, 32)


@pytest.fixture(scope="module")
def ranking(session: Session) -> Iterator[Client]:
    session.sql(
        "TRAIN MODEL ranking USING dien (target = (user), history = (tags), length = 4, dim = 2, attention = 4, hidden = 4) "
        f"LABEL click AS SELECT click, user, mobile, price, tags FROM ({LOG})"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded_module, "BATCH_SIZES", SIZES)
        yield Client(Service(Served(session.models, ["ranking"], None, print), RequestLimits(), None, None, failing))


def asked(client: Client, rows: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    return np.array(client.predict({"instances": rows}, "ranking"))


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each batch that is scored, whether it holds once what its rows have in common."""
    seen: list[bool] = []
    say = AlgorithmScorer._say

    def noted(self: AlgorithmScorer, batch: Batch) -> Any:
        seen.append(batch.group is not None)
        return say(self, batch)

    monkeypatch.setattr(AlgorithmScorer, "_say", noted)
    return seen


@lengthy
def test_candidates_of_a_user_have_the_scores_of_single_rows(ranking: Client, grouped: list[bool]) -> None:
    of_user = {"tags": HISTORY, "mobile": True}
    rows = [{**of_user, **candidate} for candidate in CANDIDATES]
    wanted = np.concatenate([asked(ranking, [row]) for row in rows])
    assert grouped == [False] * len(rows)
    found = [asked(ranking, rows), np.array(ranking.predict({"context": of_user, "candidates": CANDIDATES}, "ranking"))]
    response = ranking.post("/v2/models/ranking/infer", {"inputs": tensors()})
    found.append(np.array(json.loads(response.body)["outputs"][0]["data"]))
    for scores in found:
        np.testing.assert_allclose(scores, wanted, 1e-5, 1e-6)
    assert grouped[len(rows) :] == [True] * 3
    others = [*rows[:5], {**rows[5], "tags": OTHER}]
    mixed = np.append(wanted[:5], asked(ranking, [others[5]]))
    np.testing.assert_allclose(asked(ranking, others), mixed, 1e-5, 1e-6)
    assert not grouped[-1]


def tensors() -> list[dict[str, Any]]:
    """Return the same request of the Open Inference Protocol: a tensor whose first dimension is 1 holds for all rows."""
    count = len(CANDIDATES)
    return [
        {"name": "tags", "datatype": "BYTES", "shape": [1, len(HISTORY)], "data": HISTORY},
        {"name": "mobile", "datatype": "BOOL", "shape": [1], "data": [True]},
        {"name": "user", "datatype": "BYTES", "shape": [count], "data": [one["user"] for one in CANDIDATES]},
        {"name": "price", "datatype": "FP64", "shape": [count], "data": [one["price"] for one in CANDIDATES]},
    ]


def test_every_program_is_compiled_before_a_user_is_scored(ranking: Client, session: Session) -> None:
    loaded, compiled = loaded_of(session.models.version("ranking", None)), list[float]()
    with compilations(compiled.append):
        for count in (1, 2, 32):
            for history in (HISTORY, None):
                assert len(loaded.predict(rows_of(loaded, count, history))["predicted_click"]) == count
    assert compiled == []


def rows_of(loaded: Loaded, count: int, history: list[str] | None) -> pa.Table:
    """Return rows, all with a history or each with one of its own."""
    values = {
        "user": [f"u{i}" for i in range(count)],
        "price": [float(i) for i in range(count)],
        "tags": [history or [f"t{i}", f"t{i * 7}"] for i in range(count)],
        "mobile": [True] * count,
    }
    return pa.table({column.name: pa.array(values[column.name], column.type) for column in loaded.inputs})

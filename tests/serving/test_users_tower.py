"""A request's candidates share the tower of their user, whose slots are looked up and computed once for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly_after_first, lengthy
from tests.serving.conftest import LOG, loaded_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.instances import of_rows
from xpsql.platform.serving.loaded import Loaded

SLOTS = "click, user, ad, tags, words, price"
MODELS = {
    "both": "xnn (user = (user, tags), user_tower = (6, 4), item_tower = (4), hidden = (4), dim = 2)",
    "arrays": "xnn (user = (tags, words), user_tower = (4), hidden = (4), dim = 2, pooling = mean)",
    "category": "deepfm (user = (user), user_tower = (4), hidden = (4), dim = 2)",
    "history": "din (user = (user, words), user_tower = (4), target = (ad), history = (tags), hidden = (4), dim = 2)",
    "query": "two_tower (query = (user, tags), item = (ad, words, price), dim = 4)",
}
CONTEXT: dict[str, Any] = {"user": "u1", "tags": ["t1", "t2", "t2"], "words": {"w1": 2.0, "w0": 0.5}}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        yield session


@pytest.fixture(scope="module", params=MODELS)
def loaded(request: pytest.FixtureRequest, session: xpsql.Session) -> Loaded:
    name = request.param
    label = "" if name == "query" else "LABEL click "
    slots = SLOTS.removeprefix("click, ") if name == "query" else SLOTS
    session.sql(f"TRAIN MODEL {name} USING {MODELS[name]} {label}AS SELECT {slots} FROM log")
    return loaded_of(session.models.version(name))


def predicted(loaded: Loaded, rows: list[dict[str, Any]], context: dict[str, Any]) -> dict[str, Any]:
    found = loaded.predict_objects(rows, context)
    if found is None:
        found = loaded.predict(of_rows(rows, context, loaded.inputs))
    return {name: np.array(column.to_pylist()) for name, column in found.items()}


def candidates(n: int) -> list[dict[str, Any]]:
    return [{"ad": number % 7, "price": number / 3} for number in range(n)]


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    "context", [CONTEXT, {"user": "a new one", "tags": [], "words": None}, {"user": None, "tags": ["t3"] * 40, "words": {}}]
)
@pytest.mark.parametrize("n", [2, 16, 40])
def test_candidates_together_have_the_scores_that_each_has_alone(loaded: Loaded, n: int, context: dict[str, Any]) -> None:
    together = predicted(loaded, candidates(n), context)
    alone = [predicted(loaded, [row], context) for row in candidates(n)]
    for name, found in together.items():
        np.testing.assert_allclose(found, np.concatenate([one[name] for one in alone]), 1e-5, 1e-6)


@costly_after_first
def test_candidates_of_several_users_have_the_scores_that_each_has_alone(loaded: Loaded) -> None:
    users: list[dict[str, Any]] = [
        CONTEXT,
        {**CONTEXT, "tags": ["t1", "t2"]},
        {**CONTEXT, "user": "u2"},
        {**CONTEXT, "words": {}},
    ]
    rows = [{**row, **users[number % 4]} for number, row in enumerate(candidates(9))]
    together, alone = predicted(loaded, rows, {}), [predicted(loaded, [row], {}) for row in rows]
    for name, found in together.items():
        np.testing.assert_allclose(found, np.concatenate([one[name] for one in alone]), 1e-5, 1e-6)

"""A user's events and candidates in a request are scored as ML.PREDICT scores them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import xpsql.platform.serving.loaded as loaded_module
from tests.cases import lengthy
from tests.serving.conftest import Client, failing
from xpsql import Session
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

EVENTS = (
    "SELECT concat('u', id % 20) AS user, id AS ts, concat('i', id * 7 % 12) AS item, id * 7 % 3 AS did, "
    "CAST(id * 5 % 3 = 0 AS INT) AS click FROM range(400)"
)


@pytest.fixture(scope="module")
def clicks(session: Session) -> Iterator[Client]:
    session.sql(
        "TRAIN MODEL events USING sequence (dim = 8, length = 8, hidden = (8), actions = (did)) LABEL click GROUP user TIME ts "
        f"AS {EVENTS}"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded_module, "BATCH_SIZES", (1, 32))
        yield Client(Service(Served(session.models, ["events"], None, print), RequestLimits(), None, None, failing))


@lengthy
def test_candidates_of_a_request_are_scored_after_the_events_of_their_user(session: Session, clicks: Client) -> None:
    past = [{"user": "u3", "ts": 100 + n, "item": f"i{n}", "did": n % 3} for n in range(5)]
    candidates = [{"user": "u3", "ts": 500, "item": f"i{n}", "did": None} for n in range(12)]
    found = np.array(clicks.predict({"instances": [*past, *candidates]}, "events"))[5:]
    for place in (0, 7, 11):
        alone = np.array(clicks.predict({"instances": [*past, candidates[place]]}, "events"))[-1]
        np.testing.assert_allclose(found[place], alone, atol=1e-6)
    without = np.array(clicks.predict({"instances": [candidates[0]]}, "events"))[0]
    assert not np.allclose(without, found[0])

"""Long histories: what is chosen of thousands of events decides, in trainings, ML.PREDICT, the service and exports alike."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.errors import OptionError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

USERS, LONG, EARLY, KINDS, ITEMS, ROWS = 60, 2300, 300, 20, 200, 12_000
QUERY = "SELECT user, ts, item, category, click FROM log"
SHAPE = "hidden = (8), attention = (8), dim = 16"


def make(session: xpsql.Session) -> None:
    """Make a log whose label says whether the user liked the item's category 2,000 events ago, and never since."""
    draw = np.random.default_rng(5)
    user, ts = np.repeat(np.arange(USERS), LONG), np.tile(np.arange(LONG), USERS)
    liked = draw.random((USERS, KINDS)) < 0.5
    item = ITEMS + draw.integers(0, ITEMS, USERS * LONG)
    for one in range(USERS):
        early = (user == one) & (ts < EARLY)
        item[early] = draw.choice(np.flatnonzero(liked[one]), early.sum()) + KINDS * draw.integers(
            0, ITEMS // KINDS, early.sum()
        )
    category = np.where(item < ITEMS, item % KINDS, KINDS + item % KINDS)
    named = {"item": [f"i{n}" for n in item], "category": [f"c{n}" for n in category]}
    events = pa.table({"user": [f"u{n}" for n in user], "ts": ts, **named})
    user, item = draw.integers(0, USERS, ROWS), draw.integers(0, ITEMS, ROWS)
    rows = {"user": [f"u{n}" for n in user], "ts": np.full(ROWS, LONG), "item": [f"i{n}" for n in item]}
    rows |= {"category": [f"c{n % KINDS}" for n in item], "click": liked[user, item % KINDS].astype(int), "held": user % 4 == 0}
    for name, table in (("events", events), ("shown", pa.table(rows))):
        session.engine.register_rows("made", table)
        session.sql(f"CREATE TABLE {name} AS SELECT * FROM made")
    session.sql("CREATE TABLE log AS SELECT * FROM shown WHERE NOT held")
    session.sql(
        "CREATE HISTORY clicks AS SELECT user, ts, item, category FROM events PARTITION BY user ORDER BY ts KEEP LAST 100000"
    )


def auc(session: xpsql.Session, model: str, options: str) -> float:
    """Train on three quarters of the users, and return the AUC of the others."""
    using = f"din (target = (item, category), history = (clicks.item, clicks.category), {SHAPE}, {options})"
    session.sql(f"TRAIN MODEL {model} USING {using} LABEL click IGNORE (user) WITH (workers = 1, passes = 3) AS {QUERY}")
    held = QUERY.replace("log", "shown WHERE held")
    (row,) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL {model}, ({held}))").arrow().to_pylist()
    return float(row["auc"])


@costly
def test_a_search_finds_what_happened_two_thousand_events_ago(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        make(session)
        assert abs(auc(session, "short", "length = 50") - 0.5) < 0.06
        assert auc(session, "by_category", "length = 10000, search = 'category', top = 16, recent = 4") > 0.99
        assert auc(session, "by_product", "length = 10000, search = 'product', top = 16, recent = 4") > 0.98
        assert auc(session, "products", "length = 10000, search = 'product', top = 16, recent = 4, attends = 'product'") > 0.95
        for model in ("by_category", "by_product"):
            check_served(session, model)
            pytest.importorskip("jax2onnx")
            folder = tmp_path / model
            rows = QUERY.replace("log", "shown WHERE held LIMIT 50")
            session.sql(
                f"EXPORT MODEL {model} TO '{folder}' FORMAT onnx WITH (parity = '{rows}')"
            )  # which compares with ML.PREDICT
            assert list(folder.rglob("*.onnx"))


def check_served(session: xpsql.Session, model: str) -> None:
    """Compare the service, by the user alone, with ML.PREDICT."""
    service = Service(
        Served(session.models, [model], None, print), RequestLimits(), None, None, traceback.print_exc, lambda *asked: asked
    )
    candidates = [{"item": f"i{n}", "category": f"c{n % KINDS}"} for n in range(40)]
    body: dict[str, Any] = {"context": {"user": "u8", "ts": LONG}, "candidates": candidates}
    response = service.handle("POST", f"/v1/models/{model}:predict", {}, json.dumps(body).encode())
    values = ", ".join(f"('u8', {LONG}L, '{one['item']}', '{one['category']}')" for one in candidates)
    rows = f"SELECT * FROM VALUES {values} AS t (user, ts, item, category)"
    found = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL {model}, ({rows}))").arrow()
    assert json.loads(response.body)["predictions"] == found["predicted_click"].to_pylist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("length = 90, search = 'product'", "choose 64 \\+ 32 elements of the last 90"),
        ("length = 200, search = 'category', by = 'shop'", "expects a slot of target, item, category; got 'shop'"),
        ("length = 200, search = 'nearest'", "does not take 'nearest'"),
    ],
)
def test_a_search_that_cannot_be_is_refused_at_its_place(tmp_path: Path, options: str, message: str) -> None:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql("CREATE TABLE log AS SELECT 'u' AS user, 1 AS ts, 'i' AS item, 'c' AS category, 1 AS click")
        session.sql(
            "CREATE HISTORY clicks AS SELECT user, ts, item, category FROM log PARTITION BY user ORDER BY ts KEEP LAST 9"
        )
        with pytest.raises(OptionError, match=message) as error:
            auc(session, "m", options)
        assert error.value.position is not None


@lengthy
@pytest.mark.parametrize(("search", "most"), [("none", 1000), ("product", 80), ("category', by = 'item", 80)])
def test_features_of_events_that_were_not_chosen_get_no_rows(tmp_path: Path, search: str, most: int) -> None:
    limits = "" if search == "none" else ", top = 2, recent = 2"
    rows = pa.table(
        {
            "item": [f"i{n}" for n in range(20)],
            "seen": [[f"i{n}", *(f"s{50 * n + place}" for place in range(1, 50))] for n in range(20)],
            "click": [n % 2 for n in range(20)],
        }
    )
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.engine.register_rows("made", rows)
        session.sql("CREATE TABLE log AS SELECT * FROM made")
        using = f"din (target = (item), history = (seen), {SHAPE}, wide = false, length = 50, search = '{search}'{limits})"
        session.sql(f"TRAIN MODEL m USING {using} LABEL click WITH (passes = 1) AS SELECT item, seen, click FROM log")
        weights = session.sql("SELECT * FROM ML.WEIGHTS(MODEL m) WHERE slot = 'seen'").arrow()
        assert weights.num_rows == most if search == "none" else 0 < weights.num_rows <= most
        assert set(weights["count"].to_pylist()) == {1}

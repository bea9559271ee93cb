"""Choosing among candidates: answers, the log, and the log judged by ML.OFF_POLICY."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.serving.conftest import ROW, Client, failing
from tests.serving.test_process import SECONDS, ask, service
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.request_log import RequestLog
from xpsql.platform.serving.served import Served
from xpsql.platform.training.policies.policies import Policy

CONTEXT = {name: value for name, value in ROW.items() if name != "ad"}
SOFTMAX = Policy.of("softmax(0.5, floor = 0.1)")


def request(user: int, **more: Any) -> dict[str, Any]:
    return {"context": {**CONTEXT, "user": f"u{user % 11}"}, "candidates": [{"ad": ad} for ad in range(5)], **more}


def asked(client: Client, body: Any, model: str = "ctr") -> dict[str, Any]:
    response = client.post(f"/v1/models/{model}:predict", body)
    assert response.status == 200, response.body
    found: dict[str, Any] = json.loads(response.body)
    return found


@pytest.fixture(scope="module")
def exploring(served: Served) -> Client:
    return Client(Service(served, RequestLimits(), None, None, failing, policy=SOFTMAX))


@lengthy
@pytest.mark.parametrize("model", ["ctr", "deep"])
def test_a_request_is_told_what_was_chosen_with_which_propensity(exploring: Client, model: str) -> None:
    found = [asked(exploring, request(3, choose=True, request=f"r{number}"), model) for number in range(400)]
    predictions = np.array(found[0]["predictions"])
    wanted = SOFTMAX.propensities(np.log(predictions / (1 - predictions)), np.zeros(1, np.int64))
    for answer in found:
        assert answer["propensity"] == pytest.approx(wanted[answer["chosen"]])
    assert [answer["request"] for answer in found[:2]] == ["r0", "r1"]
    shares = np.bincount([answer["chosen"] for answer in found], minlength=5) / 400
    assert shares == pytest.approx(wanted, abs=0.1)


def test_the_same_request_is_given_the_same_candidate_and_a_new_one_has_an_id_of_its_own(exploring: Client) -> None:
    assert len({asked(exploring, request(1, choose=True, request="again"))["chosen"] for _ in range(20)}) == 1
    ids = [asked(exploring, request(1, choose=True))["request"] for _ in range(50)]
    assert len(set(ids)) == 50
    assert ids[0][:10] <= ids[-1][:10]  # they begin with the time


def test_requests_that_do_not_choose_are_answered_as_ever(client: Client, exploring: Client) -> None:
    assert asked(exploring, request(1, choose=False)) == asked(exploring, request(1)) == asked(client, request(1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instances": [ROW], "choose": True}, 'Expected "choose": true together with candidates'),
        (request(1, choose="yes"), 'Expected "choose": true together with candidates'),
        ({"context": CONTEXT, "candidates": [], "choose": True}, "Nothing can be chosen"),
        (request(1, choose=True, request=7), "request must be its id, a text of 200 letters"),
    ],
)
def test_requests_of_which_nothing_can_be_chosen_are_refused(exploring: Client, body: Any, message: str) -> None:
    assert message in exploring.problem("/v1/models/ctr:predict", body)


def test_a_service_that_does_not_explore_chooses_nothing(client: Client) -> None:
    assert "Start it with --explore" in client.problem("/v1/models/ctr:predict", request(1, choose=True))


def test_every_choice_is_logged_with_the_propensity_of_each_candidate(
    session: xpsql.Session, served: Served, tmp_path: Path
) -> None:
    log = RequestLog(tmp_path / "served", 0.0, print, explores=True)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing, policy=SOFTMAX))
    answers = {f"r{number}": asked(client, request(number, choose=True, request=f"r{number}")) for number in range(30)}
    asked(client, request(1))  # chooses nothing, and the fraction of such requests is 0
    log.stop()
    rows = session.sql(f"SELECT * FROM parquet.`{tmp_path}/served/served_model=ctr`").arrow().to_pylist()
    assert len(rows) == 150
    for row in rows:
        answer = answers[row["served_request"]]
        assert row["served_chosen"] == (row["ad"] == answer["chosen"])
        assert not row["served_chosen"] or row["served_propensity"] == answer["propensity"]
    sums = {key: sum(row["served_propensity"] for row in rows if row["served_request"] == key) for key in answers}
    assert list(sums.values()) == pytest.approx([1] * 30)


def test_requests_that_choose_nothing_are_logged_without_a_choice(
    session: xpsql.Session, served: Served, tmp_path: Path
) -> None:
    log = RequestLog(tmp_path / "served", 1.0, print, explores=True)
    log.start()
    client = Client(Service(served, RequestLimits(), None, log, failing, policy=SOFTMAX))
    asked(client, request(1))
    asked(client, request(1, choose=True))
    log.stop()
    columns = "served_request IS NULL AS a, served_chosen IS NULL AS b, served_propensity IS NULL AS c, count(*) AS n"
    found = session.sql(f"SELECT {columns} FROM parquet.`{tmp_path}/served/served_model=ctr` GROUP BY ALL ORDER BY 1").arrow()
    assert [tuple(row.values()) for row in found.to_pylist()] == [(False, False, False, 5), (True, True, True, 5)]


@costly
def test_what_a_service_chose_is_judged_from_its_log(session: xpsql.Session, tmp_path: Path) -> None:
    """Serve, choose, log, join what users did, and ask what a policy without chance would have earned."""
    log, random = tmp_path / "served", np.random.default_rng(1)
    likes = {f"u{user}": user % 5 for user in range(11)}
    clicks = []
    with service(session.models.warehouse, "--explore", "epsilon(1)", "--log-requests", str(log)) as (address, process):
        for number in range(1400):
            answer = ask(f"{address}/v1/models/ctr:predict", request(number, choose=True))
            assert answer["propensity"] == pytest.approx(0.2)
            right = likes[f"u{number % 11}"] == answer["chosen"]
            if random.random() < (0.8 if right else 0.1):
                clicks.append(answer["request"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    values = ", ".join(f"('{one}')" for one in clicks)
    session.sql(f"CREATE OR REPLACE TABLE clicks AS SELECT * FROM VALUES {values} AS t (request)")
    judged = f"""SELECT l.*, CAST(l.served_chosen AND c.request IS NOT NULL AS INT) AS click
        FROM parquet.`{log}/served_model=ctr` AS l LEFT JOIN clicks AS c ON l.served_request = c.request
        WHERE l.served_request IS NOT NULL"""
    session.sql(
        f"TRAIN MODEL learned USING xftrl LABEL click CROSS (user * ad) WITH (workers = 1, passes = 20) "
        f"AS SELECT user, ad, click FROM ({judged}) WHERE served_chosen AND hash(served_request) % 2 = 0"
    )
    others = f"SELECT * FROM ({judged}) WHERE hash(served_request) % 2 <> 0"
    rows = session.sql(f"SELECT * FROM ML.OFF_POLICY(MODEL learned, ({others}), ACTION ad)").arrow().to_pylist()
    assert [row["estimator"] for row in rows] == ["ips", "snips", "dr", "switch"]
    for row in rows:
        assert row["unsupported"] == 0
        assert row["gain_low"] > 0.1  # chance earns 0.24
        assert row["logged"] == pytest.approx(0.24, abs=0.08)


@lengthy
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--explore", "epsilon(0.1)"), "--explore needs --log-requests"),
        (("--explore", "greedy", "--log-requests", "x"), "may choose every candidate"),
        (("--explore", "often", "--log-requests", "x"), "Expected a policy"),
    ],
)
def test_exploring_without_a_log_or_without_chance_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    command = [sys.executable, "-m", "xpsql", "serve", "ctr", "--warehouse", str(tmp_path / "w"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, check=False)
    assert ended.returncode != 0
    assert message in ended.stderr.replace("\n", " ")

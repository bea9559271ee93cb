"""Policies: probabilities of candidates, and what is drawn by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpsql.platform.errors import StatementError
from xpsql.platform.training.policies.policies import Policy, drawn, scores_of


def probabilities(text: str, *requests: list[float]) -> list[list[float]]:
    sizes = [len(request) for request in requests]
    starts = np.cumsum([0, *sizes[:-1]])
    found = Policy.of(text).propensities(np.concatenate([np.array(one, float) for one in requests]), starts)
    return [part.tolist() for part in np.split(found, starts[1:])]


def test_greedy_takes_the_best_and_shares_among_equals() -> None:
    assert probabilities("greedy", [1, 3, 2], [5, 5, 0, 5], [-np.inf]) == [[0, 1, 0], [1 / 3, 1 / 3, 0, 1 / 3], [1]]


def test_epsilon_deals_its_share_evenly() -> None:
    (found,) = probabilities("EPSILON(0.2)", [1, 3, 2, 0])
    assert found == pytest.approx([0.05, 0.85, 0.05, 0.05])


def test_softmax_follows_the_ratio_of_scores_and_leaves_everybody_the_floor() -> None:
    (plain,) = probabilities("softmax(2, floor = 0.1)", [1, 3, 2])
    weights = np.exp(np.array([1, 3, 2]) / 2)
    assert plain == pytest.approx(0.9 * weights / weights.sum() + 0.1 / 3)
    (sure,) = probabilities("softmax(0.001)", [0, 1000])
    assert sure == pytest.approx([0.005, 0.995])
    (endless,) = probabilities("softmax(1)", [np.inf, np.inf, 0])
    assert endless == pytest.approx([0.495 + 1 / 300, 0.495 + 1 / 300, 1 / 300])


@given(
    st.lists(st.lists(st.floats(allow_nan=False), min_size=1, max_size=6), min_size=1, max_size=5),
    st.sampled_from(["greedy", "epsilon(0.3)", "softmax(0.5)"]),
)
def test_probabilities_of_a_request_add_up_to_one(requests: list[list[float]], text: str) -> None:
    for request, found in zip(requests, probabilities(text, *requests), strict=True):
        assert len(found) == len(request)
        assert sum(found) == pytest.approx(1)
        assert min(found) >= Policy.of(text).floor / len(request)


def test_a_draw_is_of_the_request_and_the_version_and_follows_the_propensities() -> None:
    shares = np.array([0.5, 0.3, 0.0, 0.2])
    found = [drawn(shares, f"r{number}", 3) for number in range(20_000)]
    assert found[:50] == [drawn(shares, f"r{number}", 3) for number in range(50)]
    assert found[:50] != [drawn(shares, f"r{number}", 4) for number in range(50)]
    assert np.bincount(found, minlength=4) / len(found) == pytest.approx(shares, abs=0.015)


def test_scores_of_probabilities_are_log_odds() -> None:
    assert scores_of(np.array([0.5, 0.9, 0.0, 1.0]), True) == pytest.approx([0, np.log(9), -np.inf, np.inf])
    assert scores_of(np.array([3.5, -1]), False).tolist() == [3.5, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best", "Expected a policy, greedy, epsilon"),
        ("greedy(1)", "Expected a policy"),
        ("epsilon", "Expected a policy"),
        ("epsilon(0)", "above 0 and at most 1; got 0"),
        ("epsilon(much)", "above 0 and at most 1; got much"),
        ("softmax(0)", "must be a positive number; got 0"),
        ("softmax(nan)", "must be a positive number; got nan"),
        ("softmax(1, floor = 2)", "above 0 and at most 1; got 2"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatementError, match=message.replace("(", r"\(")):
        Policy.of(text)

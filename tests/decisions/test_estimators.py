"""Off-policy estimators: those of obp to the last digit, and intervals that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cases import lengthy
from tests.decisions.golden import CLIP, REQUESTS, TAU, log
from xpsql.platform.training.policies.estimators import ESTIMATORS, Decided, effective_rows, estimates

GOLDEN = {
    "ips": 0.32214302545579643,
    "ips clipped": 0.2929010971055089,
    "snips": 0.24024466239290806,
    "dr": 0.1833557938427564,
    "dr clipped": 0.21760619189671482,
    "switch": 0.30861452523004823,
}
"""As tests/decisions/golden.py prints them."""
NO_GROUPS = np.empty(0, np.int64)


def decided() -> Decided:
    made, rounds = log(), np.arange(REQUESTS)
    return Decided(
        made.reward,
        made.policy[rounds, made.action] / made.logging[rounds, made.action],
        made.expected[rounds, made.action],
        (made.policy * made.expected).sum(axis=1),
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_estimates_are_those_of_obp(name: str) -> None:
    estimator, _, clipped = name.partition(" ")
    clip = TAU if estimator == "switch" else CLIP if clipped else np.inf
    over, under = ESTIMATORS[estimator](decided(), clip)
    assert over.sum() / under.sum() == pytest.approx(GOLDEN[name], rel=1e-14)


def test_the_gain_is_the_difference_to_the_log_and_its_interval_is_of_pairs() -> None:
    made = decided()
    same = made._replace(weight=np.ones(REQUESTS))  # the policy is the one that decided
    found = estimates(same, np.inf, NO_GROUPS, 7)
    assert found["ips"].gain[2:] == (0, 0, 0)
    assert found["ips"].value.first == made.reward.mean()
    assert found["ips"].value.low < found["ips"].value.first < found["ips"].value.high


def test_requests_of_a_group_are_drawn_together() -> None:
    made = decided()
    nine = Decided(*(np.repeat(values, 9) for values in made))
    alone, together = (estimates(nine, 20, groups, 7)["dr"].value for groups in (NO_GROUPS, np.repeat(np.arange(REQUESTS), 9)))
    assert together == pytest.approx(estimates(made, 20, NO_GROUPS, 7)["dr"].value)
    assert alone.high - alone.low == pytest.approx((together.high - together.low) / 3, rel=0.1)


def test_effective_rows_count_equal_weights_once() -> None:
    assert effective_rows(np.full(40, 2.5)) == pytest.approx(40)
    assert effective_rows(np.array([0.0, 0.0, 3.0])) == 1
    assert effective_rows(np.zeros(3)) == 0


@lengthy
def test_intervals_of_95_percent_cover_the_truth_in_19_of_20_logs() -> None:
    """A made bandit, where every action's reward is known."""
    random = np.random.default_rng(5)
    logs, requests, actions = 400, 150, 4
    covered, truth = dict.fromkeys(ESTIMATORS, 0), policy_value()
    for number in range(logs):
        chances = random.beta(2, 5, (requests, actions))
        logging, policy = random.dirichlet(np.full(actions, 3.0), requests), np.eye(actions)[chances.argmax(axis=1)]
        logging, policy = 0.6 * logging + 0.1, 0.8 * policy + 0.05
        action = (logging.cumsum(axis=1) > random.random((requests, 1))).argmax(axis=1)
        rounds = np.arange(requests)
        reward = (random.random(requests) < chances[rounds, action]).astype(float)
        model = np.clip(chances + random.normal(0, 0.1, chances.shape), 0, 1)
        weight = policy[rounds, action] / logging[rounds, action]
        made = Decided(reward, weight, model[rounds, action], (policy * model).sum(axis=1))
        for name, found in estimates(made, np.inf, NO_GROUPS, number).items():
            covered[name] += bool(found.value.low <= truth <= found.value.high)
    assert all(0.93 <= count / logs <= 0.97 for count in covered.values()), covered


def policy_value() -> float:
    """Return what the policy earns in the long run, from a million requests."""
    chances = np.random.default_rng(6).beta(2, 5, (1_000_000, 4))
    return float(0.8 * chances.max(axis=1).mean() + 0.05 * chances.sum(axis=1).mean())

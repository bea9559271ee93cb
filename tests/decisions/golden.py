"""Golden numbers of obp 0.5.7, which asks for Python below 3.11 and torch: `python -m tests.decisions.golden FOLDER`.

FOLDER is the unpacked sdist of obp 0.5.7. Its estimators are loaded alone, with stubs for what they do not use, and print the
numbers that tests/decisions/test_estimators.py has.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

REQUESTS, ACTIONS = 200, 5
CLIP, TAU = 3.0, 2.0


class Log(NamedTuple):
    """A made log: float64[requests, actions] policies and expected rewards, and what was shown and earned."""

    logging: NDArray[np.float64]
    policy: NDArray[np.float64]
    expected: NDArray[np.float64]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]


def log() -> Log:
    """Return a log that depends on no generator of random numbers."""
    request, action = np.arange(REQUESTS)[:, None], np.arange(ACTIONS)[None]
    logging = 1.0 + (request * 7 + action * 3) % 5
    policy = 0.2 + (request * 5 + action * 11) % 7
    expected = ((request * 3 + action * 13) % 17) / 20
    shown = (np.arange(REQUESTS) * 3) % ACTIONS
    reward = ((np.arange(REQUESTS) * 11 + shown * 5) % 4 == 0).astype(np.float64)
    return Log(logging / logging.sum(1, keepdims=True), policy / policy.sum(1, keepdims=True), expected, shown, reward)


def load(folder: Path) -> Any:
    """Return obp's module of estimators."""
    sys.path.insert(0, str(folder))
    for name in ("torch", "tqdm", "pyieoe", "seaborn", "matplotlib", "matplotlib.pyplot"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["torch"].Tensor = sys.modules["torch"].tensor = object  # type: ignore[attr-defined]
    for name in ("obp", "obp.ope"):  # their __init__ would import all of it
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package
    return importlib.import_module("obp.ope.estimators")


def main() -> None:
    obp, made = load(Path(sys.argv[1])), log()
    rounds = np.arange(REQUESTS)
    known = {
        "reward": made.reward,
        "action": made.action,
        "pscore": made.logging[rounds, made.action],
        "action_dist": made.policy[:, :, None],
        "position": np.zeros(REQUESTS, int),
    }
    by_model = {**known, "estimated_rewards_by_reg_model": made.expected[:, :, None]}
    for name, estimator, given in (
        ("ips", obp.InverseProbabilityWeighting(), known),
        ("ips clipped", obp.InverseProbabilityWeighting(lambda_=CLIP), known),
        ("snips", obp.SelfNormalizedInverseProbabilityWeighting(), known),
        ("dr", obp.DoublyRobust(), by_model),
        ("dr clipped", obp.DoublyRobust(lambda_=CLIP), by_model),
        ("switch", obp.SwitchDoublyRobust(lambda_=TAU), by_model),
    ):
        print(f"    {name!r}: {estimator.estimate_policy_value(**given)!r},")


if __name__ == "__main__":
    main()

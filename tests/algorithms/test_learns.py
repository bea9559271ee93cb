"""How an algorithm learns answers by itself: nobody asks which of the three ways it is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import lengthy
from xpsql.algorithms.augments.sampling import Sampling
from xpsql.algorithms.learns import Online, Packaged, Solved, Supervised, Unsupervised
from xpsql.algorithms.losses import LOGLOSS, SQUARED

ROOT = Path(__file__).parents[2]
WAYS = {"Online", "Solved", "Packaged", "Supervised", "Unsupervised"}


def anything(*given: Any) -> Any:
    return np.zeros(1)


GOAL = Supervised(anything, LOGLOSS)
SAMPLING = Sampling(1, 1.0, 1.0)
LEARNER: Any = object()
ANSWERS = [
    (Online(GOAL, augment=(SAMPLING,), random=True), (True, LOGLOSS, (SAMPLING,), True, None, None)),
    (Online(Unsupervised(anything)), (True, None, (), False, None, None)),
    (Solved(GOAL, anything), (False, LOGLOSS, (), False, None, anything)),
    (Packaged(LEARNER, LOGLOSS), (False, LOGLOSS, (), False, LEARNER, None)),
]


@pytest.mark.parametrize(("learns", "expected"), ANSWERS)
def test_each_way_of_learning_answers_the_same_questions(learns: Online | Solved | Packaged, expected: tuple[Any, ...]) -> None:
    found = learns.serves, learns.loss, learns.augment, learns.random, learns.learner, learns.solve
    assert found == expected
    assert not learns.examples_meet


def test_another_loss_leaves_the_rest_as_it_is() -> None:
    assert [learns.with_loss(SQUARED).loss for learns, _ in ANSWERS] == [SQUARED, None, SQUARED, SQUARED]
    assert Solved(GOAL, anything).with_loss(SQUARED).solve is anything


def test_a_package_has_no_objective_over_rows() -> None:
    with pytest.raises(TypeError, match="scored by its learner"):
        _ = Packaged(LEARNER, LOGLOSS).goal


@lengthy
def test_no_file_asks_which_way_an_algorithm_learns() -> None:
    asking = set()
    for tree in ("algorithms", "platform", "warehouse", "xpsql/testing"):
        for path in (ROOT / tree).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                    asked = {getattr(name, "id", "") for name in ast.walk(node.args[1])}
                    asking |= {str(path.relative_to(ROOT))} if asked & WAYS else set()
    assert asking == set()

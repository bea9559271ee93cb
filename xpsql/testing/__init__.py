"""Conformance suites for the authors of operators, algorithms, vertex programs, folds, updates, readings and engines.

    import pytest
    from xpsql.testing import ALGORITHM_CHECKS, OPERATOR_CHECKS, AlgorithmTrial, OperatorTrial

    @pytest.mark.parametrize("check", OPERATOR_CHECKS, ids=lambda check: check.__name__)
    def test_my_operator_conforms(check):
        check(OperatorTrial(MY_OPERATOR))

    @pytest.mark.parametrize("check", ALGORITHM_CHECKS, ids=lambda check: check.__name__)
    def test_my_algorithm_conforms(check):
        check(AlgorithmTrial(MY_ALGORITHM))

A check's docstring says what it holds a part to; it raises AssertionError with what differs. What a suite cannot know is the
formula of your part: hold that to a test of its own.
"""

from __future__ import annotations

from ..platform.functions.promises import FOLD_CHECKS, UPDATE_CHECKS, FoldTrial, UpdateTrial
from ..platform.functions.reading_promises import READING_CHECKS, ReadingTrial
from .algorithms import ALGORITHM_CHECKS, AlgorithmTrial
from .engines import ENGINE_CHECKS, EngineTrial
from .graphs import GRAPH_CHECKS, GraphTrial
from .operators import OPERATOR_CHECKS, OperatorTrial

__all__ = [
    "ALGORITHM_CHECKS",
    "ENGINE_CHECKS",
    "FOLD_CHECKS",
    "GRAPH_CHECKS",
    "OPERATOR_CHECKS",
    "READING_CHECKS",
    "UPDATE_CHECKS",
    "AlgorithmTrial",
    "EngineTrial",
    "FoldTrial",
    "GraphTrial",
    "OperatorTrial",
    "ReadingTrial",
    "UpdateTrial",
]

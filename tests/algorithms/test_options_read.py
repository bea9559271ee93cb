"""No algorithm takes an option that it never reads."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.algorithms.test_conformance import OTHERS
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Layout
from xpsql.algorithms.vertex_program import EdgeGroups, GraphRound
from xpsql.platform.registry import EDGES
from xpsql.testing import AlgorithmTrial, GraphTrial, algorithms

OF_TRAININGS = {"network": {"history", "sha256"}, "xgboost": {"rounds"}, "sequence": {"context", "negatives", "temperature"}}
"""Options that are read while columns are found, while a file is opened, or while a package learns: not by the factory. Those
of sequence are read without labels, or with a stored history."""


def recording(options: Any) -> tuple[Any, set[str]]:
    """Return options that note which of them are read, and those notes."""
    names, read = {field.name for field in dataclasses.fields(options)}, set[str]()

    class Recording(type(options)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            return super().__getattribute__(name)

    made = Recording(**{name: getattr(options, name) for name in names})
    read.clear()
    return made, read


def elsewhere(field: dataclasses.Field[Any], options: Any) -> bool:
    """Return whether an option is read where it matters alone: beside what it needs, or where columns are found."""
    limits = field.metadata["limits"]
    lengths = {other.metadata["limits"].length for other in dataclasses.fields(options)}
    return bool(limits.needs or limits.facts or limits.role) or field.name in lengths


@pytest.mark.parametrize("name", ALGORITHMS.names)
def test_every_option_of_an_algorithm_is_read(name: str) -> None:
    part = ALGORITHMS.find(name)
    assert part is not None
    layout, given = OTHERS.get(name, (algorithms.LAYOUT, None))
    options, read = recording(part.options() if given is None else given)
    if name == "xgboost":
        pytest.importorskip("xgboost")
        part.make(options, Layout(("user",), (), ("price",))).learns.learner._parameters()
    elif name in ("swing", "common_neighbours"):
        groups = EdgeGroups(np.array([0, 0, 2]), np.zeros(2, np.int32), None, 0, 1)
        part.make(options, Layout()).learns.program.combine.along(groups, np.arange(2), GraphRound(-1, 0))
    elif part.takes == EDGES:
        GraphTrial(part, options).usual()
    else:
        trial = AlgorithmTrial(part, options, layout)
        for table in trial.algorithm.tables:
            trial.algorithm.optimizer(table)
            trial.algorithm.operators(table)
        if trial.algorithm.dense_optimizer is not None:
            trial.algorithm.dense_optimizer()
        trial.learn.lower(trial.parameters(), trial.inputs(), None)
    never = [field.name for field in dataclasses.fields(options) if field.name not in read and not elsewhere(field, options)]
    assert set(never) <= OF_TRAININGS.get(name, set())

"""What a recipe settles for its process."""

from __future__ import annotations

import os
from typing import Any

import pytest

from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Layout
from xpsql.platform.training import recipe
from xpsql.platform.training.compiled import limit_threads

LAYOUT = Layout(tuple(f"c{i}" for i in range(26)), (), (), (), ("label",))


@pytest.mark.parametrize(
    ("name", "options", "threads"),
    [("xftrl", {}, 1), ("fm", {}, 1), ("xnn", {}, 1), ("xnn", {"hidden": (1024, 512)}, 7), ("owlqn", {}, 7)],
)
def test_small_steps_stay_on_one_thread(
    name: str, options: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "cores", lambda: 7)
    part = next(part for part in ALGORITHMS if part.name == name)
    assert recipe.num_threads(part.make(part.options(**options), LAYOUT)) == threads


def test_whoever_says_first_how_many_threads_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "3")
    limit_threads(5)
    assert os.environ["NPROC"] == "3"
    monkeypatch.delenv("NPROC")
    limit_threads(5)
    assert os.environ["NPROC"] == "5"

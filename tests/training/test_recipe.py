"""What a recipe settles for its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import lengthy
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm, Layout
from xpsql.algorithms.blocks.events import EVENTS, EventSlots
from xpsql.algorithms.blocks.histories import HISTORIES, HistorySlots
from xpsql.platform.options import Part, of_optimizer
from xpsql.platform.training import recipe
from xpsql.platform.training.compiled import limit_threads

NETWORK = Path(__file__).parents[1] / "algorithms" / "bridges" / "plain.py"
LAYOUT = Layout(tuple(f"c{i}" for i in range(26)), (), (), (), ("label",))
SEQUENCES = Layout((), ("history",), (), (), ())
LAYOUTS = {
    "word2vec": (SEQUENCES, {}),
    "slrm": (Layout(("item",), ("history",), (), (), ("label",)), {}),
    "xsvd": (LAYOUT, {"user": ("c0",), "item": ("c1",)}),
    "din": (LAYOUT.having(HISTORIES, [HistorySlots("history", ("clicked",))]), {"target": ("c0",), "history": ("clicked",)}),
    "network": (LAYOUT, {"source": NETWORK.read_text(encoding="utf-8")}),
    "dien": (LAYOUT.having(HISTORIES, [HistorySlots("history", ("clicked",))]), {"target": ("c0",), "history": ("clicked",)}),
    "tdm": (
        LAYOUT._replace(labels=()).having(HISTORIES, [HistorySlots("history", ("clicked",))]),
        {"item": ("c0",), "history": ("clicked",)},
    ),
    "line": (Layout(("user", "item"), (), (), (), ()), {}),
    "sequence": (Layout(("item",), (), (), (), ()).having(EVENTS, [EventSlots(("user", "ts"), 8)]), {"item": ("item",)}),
    "two_tower": (Layout(("user", "item"), (), (), (), ()), {"query": ("user",), "item": ("item",)}),
}


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


@lengthy
def test_jax_does_not_run_before_it_is_known_how_many_threads_it_shall_have() -> None:
    """In a process of its own, where JAX has not run: algorithms are made first, and say how large they are."""
    script = (
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "from tests.training.test_recipe import ALGORITHMS, LAYOUT, LAYOUTS\n"
        "for part in ALGORITHMS:\n"
        "    layout, given = LAYOUTS.get(part.name, (LAYOUT, {}))\n"
        "    part.make(part.options(**given), layout)\n"
        "    assert not backends_are_initialized(), part.name\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("part", ALGORITHMS, ids=lambda part: part.name)
def test_options_that_only_optimizers_read_are_declared_so(part: Part[Any, Algorithm]) -> None:
    layout, given = LAYOUTS.get(part.name, (LAYOUT, {}))
    read: set[str] = set()

    class Recording(part.options):  # type: ignore[name-defined,misc]
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    algorithm = part.make(Recording(**given), layout)
    read.clear()
    for table in algorithm.tables if algorithm.serves else ():
        algorithm.optimizer(table)
    declared, usual = of_optimizer(part.options), part.options(**given)
    chosen = {name for name in declared if getattr(usual, name) is None}  # by the slots, as the algorithm is made
    assert {name for name in read if not name.startswith("__")} == declared - chosen


def test_whoever_says_first_how_many_threads_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "3")
    limit_threads(5)
    assert os.environ["NPROC"] == "3"
    monkeypatch.delenv("NPROC")
    limit_threads(5)
    assert os.environ["NPROC"] == "5"

"""Learning from edges: a vertex program, which stands where others have an objective over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax

from .augment import Augment
from .learns import Guard, Losses, Parameters, Unsupervised
from .vertex_program import PairProgram, VertexProgram


def no_losses(parameters: Parameters, inputs: Any) -> tuple[jax.Array, jax.Array]:
    raise TypeError("A vertex program has no objective over rows.")


NO_OBJECTIVE: Losses = no_losses


@dataclass(frozen=True)
class Graph:
    """A vertex program learns from edges, all at once; its one table has a row for each vertex, whose weights are its
    value; or, where it finds pairs, a row for each pair, whose weight is its score.

    Attributes:
        program: what it computes.
        others: see Online and Solved.
    """

    program: VertexProgram | PairProgram
    goal: ClassVar[Unsupervised] = Unsupervised(NO_OBJECTIVE)
    augment: ClassVar[tuple[Augment, ...]] = ()
    loss: ClassVar[None] = None
    learner: ClassVar[None] = None
    solve: ClassVar[None] = None
    serves: ClassVar[bool] = False
    examples_meet: ClassVar[bool] = False
    random: ClassVar[bool] = False
    path: ClassVar[tuple[float, ...]] = ()
    l2: ClassVar[float] = 0.0

    def guarded(self, guard: Guard) -> Graph:
        """Return itself: what a program raises is blamed where it runs."""
        return self

    def through(self, change: Callable[..., Any]) -> Graph:
        """Return itself, which has no functions of parameters and inputs."""
        return self

    def with_goal(self, goal: object) -> Graph:
        """Return itself, which has none over rows."""
        return self

    def with_loss(self, loss: object) -> Graph:
        """Return itself, which has none."""
        return self

"""From a plan's names and options to working parts: the algorithm and, for each of its tables, a chain of operators."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...algorithms.base import Algorithm
from ...warehouse.manifest import Manifest
from .. import parts
from ..errors import StatementError
from ..operators.base import Operator, TableSpec, chain
from ..options import Value
from ..ps.ladder import Ladder
from ..ps.programs import Programs
from .batches import Ladders
from .plan import Plan

KEPT = 32


class Recipe(NamedTuple):
    """What a training runs: the algorithm, the programs of each of its tables, and the sizes that they run with."""

    algorithm: Algorithm
    programs: tuple[Programs, ...]
    ladders: Ladders


def recipe_of(plan: Plan) -> Recipe:
    """Make the parts of a plan; equal plans get the same ones, so that a CONTINUE compiles nothing.

    Raises:
        StatementError: operators in an order that cannot work, or one that needs TIME where there is none.
    """
    if len(plan.labels) > 1:
        raise StatementError(
            f"LABEL names {len(plan.labels)} columns; {plan.algorithm.name} learns one. Train a model for each."
        )
    operators = tuple((found("operator", use.name), use.options) for use in plan.operators)
    recipe = make(found("algorithm", plan.algorithm.name), plan.algorithm.options, operators, plan.settings.seed)
    for programs in recipe.programs:
        if programs.chain.needs_time and plan.time is None:
            raise StatementError(
                f"OPERATORS ({programs.chain.name}) has a part that needs event times; name their column with TIME."
            )
    return recipe


@functools.lru_cache(maxsize=KEPT)
def make(algorithm_part: parts.AnyPart, options: Any, operators: tuple[tuple[parts.AnyPart, Any], ...], seed: int) -> Recipe:
    algorithm: Algorithm = algorithm_part.make(options)
    chains = [(spec, make_chain(algorithm, spec, operators)) for spec in algorithm.tables]
    return Recipe(algorithm, tuple(Programs(spec, composed, seed) for spec, composed in chains), Ladders(Ladder(), Ladder()))


def make_chain(algorithm: Algorithm, spec: TableSpec, operators: Sequence[tuple[parts.AnyPart, Any]]) -> Operator:
    """Compose the operators of a statement, in its order; the algorithm's optimizer ends the chain where none is named."""
    made: list[Operator] = [part.make(options, spec) for part, options in operators]
    if not any(operator.optimizer for operator in made):
        made.append(algorithm.optimizer(spec))
    try:
        return chain(*made)
    except ValueError as error:
        raise StatementError(f"OPERATORS cannot be composed: {error}") from error


def found(kind: str, name: str) -> parts.AnyPart:
    return parts.find(kind, parts.built_in(kind), name, None)


def algorithm_of(manifest: Manifest) -> Algorithm:
    """Make the algorithm of a trained version.

    Raises:
        StatementError: its package is not installed, or its options have changed.
    """
    part = found("algorithm", manifest.algorithm.name)
    given = {name: Value(value) for name, value in manifest.algorithm.options.items()}
    algorithm: Algorithm = part.make(parts.options("algorithm", part, given))
    return algorithm

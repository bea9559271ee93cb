"""From a plan's names and options to working parts: the algorithm and, for each of its tables, a chain of operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...algorithms.base import Algorithm
from ...warehouse.manifest import Manifest
from .. import parts
from ..errors import StatementError
from ..operators.base import Operator, TableSpec, chain
from ..options import Value
from .plan import Plan, Use


class Recipe(NamedTuple):
    """What a training runs: the algorithm and the chain of each table."""

    algorithm: Algorithm
    chains: dict[TableSpec, Operator]


def recipe_of(plan: Plan) -> Recipe:
    """Make the parts of a plan.

    Raises:
        StatementError: operators in an order that cannot work, or one that needs TIME where there is none.
    """
    algorithm = make_algorithm(plan.algorithm)
    chains = {spec: make_chain(algorithm, spec, plan.operators) for spec in algorithm.tables}
    for operators in chains.values():
        if operators.needs_time and plan.time is None:
            raise StatementError(
                f"OPERATORS ({operators.name}) has a part that needs event times; name their column with TIME."
            )
    return Recipe(algorithm, chains)


def make_algorithm(use: Use) -> Algorithm:
    made = parts.find("algorithm", parts.built_in("algorithm"), use.name, None).make(use.options)
    assert isinstance(made, Algorithm)
    return made


def make_chain(algorithm: Algorithm, spec: TableSpec, operators: Sequence[Use]) -> Operator:
    """Compose the operators of a statement, in its order; the algorithm's optimizer ends the chain where none is named."""
    found = [parts.find("operator", parts.built_in("operator"), use.name, None) for use in operators]
    made: list[Operator] = [part.make(use.options, spec) for part, use in zip(found, operators, strict=True)]
    if not any(operator.optimizer for operator in made):
        made.append(algorithm.optimizer(spec))
    try:
        return chain(*made)
    except ValueError as error:
        raise StatementError(f"OPERATORS cannot be composed: {error}") from error


def algorithm_of(manifest: Manifest) -> Algorithm:
    """Make the algorithm of a trained version.

    Raises:
        StatementError: its package is not installed, or its options have changed.
    """
    part = parts.find("algorithm", parts.built_in("algorithm"), manifest.algorithm.name, None)
    given = {name: Value(value) for name, value in manifest.algorithm.options.items()}
    return make_algorithm(Use(part.name, manifest.algorithm.options, parts.options("algorithm", part, given)))

"""From a plan's names and options to working parts: the algorithm and, for each of its tables, a chain of operators."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ...algorithms.augments.pairs import pairs_of
from ...algorithms.base import Algorithm, Layout, Sums
from ...algorithms.delayed_labels import with_late_labels
from ...algorithms.pools import with_pools
from ...algorithms.side_vectors import with_sides
from ...warehouse.manifest import Manifest
from .. import parts
from ..blame import blamed, blaming
from ..cores import cores
from ..errors import ModelError, OptionError, StatementError, Subject, suggestion
from ..input.batches import Ladders
from ..input.columns import Columns, columns_from, require_features
from ..input.roles import CROSS
from ..input.slots import offered_slots
from ..operators.base import Operator, TableSpec
from ..operators.chains import chain
from ..operators.paced import paced
from ..operators.row_statistics import statistics_of_rows
from ..options import of_optimizer, written
from ..ps.compiled.ladder import Ladder
from ..ps.compiled.table_programs import Programs
from ..ps.compiled.updates import RowUpdates, TimedUpdate
from ..ps.dense import DenseProgram, size
from .clauses.apply import APPLY, updates_in
from .clauses.label import LABEL
from .clauses.using import OPERATORS
from .compiled import limit_threads
from .devices import DevicePlace, place_of
from .operator_guard import checked
from .plan import Plan
from .preparation.edges import checked_ends, columns_for
from .settings_checks import check_apply, check_release, check_settings

KEPT = 32
DENSE = "dense"  # what ON calls dense parameters
MANY_FLOATS = 400_000  # of dense parameters, from which on a network's steps gain by threads


class UsedOperator(NamedTuple):
    """An operator of a statement: its part, its options, and what it acts on, nothing for all."""

    part: parts.AnyPart
    options: Any
    on: tuple[str, ...]

    def acts_on(self, table: str) -> bool:
        """Return whether it acts on a table, or on DENSE."""
        return not self.on or table in self.on


class Recipe(NamedTuple):
    """What a training runs: the algorithm, the programs of its tables and dense parameters, and the sizes they run with.

    `optimizer` is the one that OPERATORS names, which takes the place of the algorithm's own; None where it names none. `place`
    is where steps run and rows are; None: on the CPU, and in this process's store. `updates` are those of APPLY.
    """

    algorithm: Algorithm
    programs: tuple[Programs, ...]
    dense: DenseProgram
    ladders: Ladders
    optimizer: str | None
    place: DevicePlace | None = None
    updates: RowUpdates | None = None


def recipe_of(plan: Plan, columns: Columns) -> Recipe:
    """Make the parts of a plan; equal plans over equal slots get the same ones, so that a CONTINUE compiles nothing.

    Raises:
        StatementError: more labels than the algorithm learns, operators in an order that cannot work, or settings that the
            algorithm has no use for.
    """
    operators = tuple(UsedOperator(parts.OPERATOR.find(use.name, None), use.options, use.on) for use in plan.operators)
    numbers = slot_numbers(columns) if any(getattr(used.options, "slots", ()) for used in operators) else ()
    made = part_of(plan), plan.algorithm.options, columns.layout
    labels = plan.clause(LABEL)
    recipe = make(*made, labels.late, operators, numbers, plan.settings.seed, plan.settings.paced)._replace(
        place=place_of(plan.settings)
    )
    if plan.clause(APPLY):
        recipe = recipe._replace(updates=updates_of(plan, recipe, columns))
    if len(labels.columns) > 1 and (labels.late or recipe.algorithm.labels == "one"):
        learner = "LATE takes one label" if labels.late else f"{plan.algorithm.name} learns one"
        message = f"{LABEL} names {len(labels.columns)} columns; {learner}. Train a model for each."
        raise StatementError(message, subject=LABEL.subject)
    if columns.classes is not None and (recipe.algorithm.loss is None or not recipe.algorithm.loss.multiclass):
        raise StatementError(
            f"{LABEL} {columns.labels[0]} has classes, and {plan.algorithm.name} learns numbers. Take xftrl, "
            "logistic_regression, fm, a network such as xnn, or xgboost; or make a number of it in the query.",
            subject=LABEL.subject,
        )
    check_settings(plan, recipe.algorithm)
    return recipe


def updates_of(plan: Plan, recipe: Recipe, columns: Columns) -> RowUpdates:
    """Return the updates of APPLY; arguments and errors as of recipe_of."""
    check_apply(plan, recipe.algorithm)
    programs = {one.spec.name: one for one in recipe.programs}
    return RowUpdates([TimedUpdate(*one) for one in updates_in(plan.clause(APPLY), programs, slot_numbers(columns))])


def idle(plan: Plan, recipe: Recipe) -> frozenset[str]:
    """Return the options of the algorithm that have no effect: they set its own optimizers, and OPERATORS names another one."""
    if recipe.optimizer is None:
        return frozenset()
    return of_optimizer(type(plan.algorithm.options)) & {name.lower() for name in plan.algorithm.given}


def fitted(plan: Plan, schema: pa.Schema, parent: Manifest | None) -> tuple[Recipe, Columns]:
    """Find the slots and roles of a training query and make the parts of its plan for them.

    Raises:
        StatementError: see columns_of, check_offered, recipe_of and check_release; labels that are learned in another unit than
            in the continued version.
    """
    columns = columns_for(part_of(plan), schema, plan.roles, parent, plan.histories, plan.algorithm.options)
    limit_threads(num_threads(checked_ends(planned(plan, columns.layout), plan.roles)))  # JAX runs where an operator is probed
    made = used_operators(plan)
    offers = tuple(name for operator in made for name in operator.offers)
    columns = dataclasses.replace(columns, offered=offered_slots(columns, offers, parent))
    check_crosses(plan, columns)
    for use, operator in zip(plan.operators, made, strict=True):
        named = getattr(use.options, "slots", ()) if operator.offers else ()
        require_features(columns, named, Subject("OPERATORS", use.name, "slots"))
    if offers:
        check_offered(plan, columns, next(operator.name for operator in made if operator.offers))
    recipe = recipe_of(plan, columns)
    algorithm = recipe.algorithm
    check_release(plan, algorithm, [slot.name for slot in columns.slots])
    if parent is not None and other_unit(algorithm, parent):
        raise StatementError(
            f"Version {parent.version} of {plan.model} learned its labels in another unit than {plan.algorithm.name} does now: "
            "as they are, in standard deviations from their mean, or as logarithms. TRAIN OR REPLACE it."
        )
    return recipe, dataclasses.replace(
        columns,
        intercept=algorithm.intercept is not None,
        logarithmic=algorithm.traits.logarithmic,
        standardised=algorithm.standardised,
        chained=algorithm.labels == "chain",
        tree=algorithm.tree is not None,
        pairs=any(pairs.beside for pairs in pairs_of(algorithm.learns)),
    )


def other_unit(algorithm: Algorithm, parent: Manifest) -> bool:
    """Return whether a version's scores say what labels are in another unit."""
    counts = algorithm.loss is not None and algorithm.loss.counts
    before = options_in(parent).get("loss") == "poisson"
    return algorithm.standardised != columns_from(parent).standardised or counts != before


def used_operators(plan: Plan) -> list[Operator]:
    """Return the operators that a statement names, as a table of one float has them."""
    return [make_operator(parts.OPERATOR.find(use.name, None), use.options, TableSpec("", 1)) for use in plan.operators]


def check_offered(plan: Plan, columns: Columns, operator: str) -> None:
    """Refuse an operator that offers inputs to an algorithm that takes none, but would take the slots of the query alone."""
    try:
        planned(plan, columns.layout)
    except OptionError as error:
        message = f"{OPERATORS} ({operator}) offers inputs in addition to the slots. {error.message} Leave the operator out."
        raise StatementError(message, subject=OPERATORS.subject) from error


def check_crosses(plan: Plan, columns: Columns) -> None:
    """Refuse crosses where the algorithm changes examples: the crosses of a row that it makes would be another row's."""
    if not columns.crosses:
        return
    learns = planned(plan, columns.layout).learns
    if learns.augment:
        name = plan.algorithm.name
        message = f"{CROSS} combines the slots of a row, and {name} makes rows of its own. Leave it out."
        raise StatementError(message, subject=CROSS)


def num_threads(algorithm: Algorithm) -> int:
    """Return how many threads XLA should have: one beside those that read, where the steps are small, since handing them to
    another thread takes longer than it saves."""
    many = not algorithm.serves or sum(map(size, algorithm.dense)) >= MANY_FLOATS
    return cores() if many else 1


@functools.lru_cache(maxsize=KEPT)
def make(
    part: parts.AnyPart,
    options: Any,
    layout: Layout,
    late: bool,
    operators: tuple[UsedOperator, ...],
    slots: tuple[tuple[str, int], ...],
    seed: int,
    at_rates: bool,
) -> Recipe:
    algorithm = make_algorithm(part, options, layout)
    if late:
        algorithm = with_late_labels(algorithm, part.name)
    limit_threads(num_threads(algorithm))
    probed = [make_operator(used.part, used.options, TableSpec("", 1)) for used in operators]
    for used, operator in zip(operators, probed, strict=True):
        check_on(used, operator, algorithm)
    programs: list[Programs] = []
    for spec in algorithm.tables:
        first = programs[0] if programs else None
        chained = make_chain(algorithm, spec._replace(slots=slots), operators, first is not None, at_rates)
        programs.append(Programs(spec, chained, seed, first))
    optimizer = algorithm.dense_optimizer() if algorithm.dense_optimizer else None
    on_dense = [used for used, operator in zip(operators, probed, strict=True) if operator.dense and used.acts_on(DENSE)]
    dense = DenseProgram(
        algorithm.dense,
        optimizer,
        seed,
        lambda table: [checked(make_operator(used.part, used.options, table)) for used in on_dense],
        at_rates,
    )
    whole = (operator.name for used, operator in zip(operators, probed, strict=True) if operator.optimizer and not used.on)
    return Recipe(algorithm, tuple(programs), dense, Ladders(Ladder(), Ladder()), next(whole, None))


def check_on(used: UsedOperator, operator: Operator, algorithm: Algorithm) -> None:
    """Refuse an operator on tables that the algorithm does not have, or on which it has no effect.

    Raises:
        StatementError: names the operator and what it can act on.
    """
    subject, tables = Subject("OPERATORS", operator.name), [spec.name for spec in algorithm.tables]
    valid = [*tables, *([DENSE] if algorithm.dense else ())]
    for name in used.on:
        if name not in valid:
            message = f"{subject} is to act on {name}, which the algorithm does not have.{suggestion(name, valid)}"
            raise StatementError(message, subject=subject)
    if used.on and (operator.lives or operator.offers or operator.counts):
        raise StatementError(f"{subject} acts on a feature in all tables. Leave ON out.", subject=subject)
    if DENSE in used.on and not operator.dense:
        what = "has the algorithm's optimizer" if operator.optimizer else "has no rows of features, which it acts on"
        raise StatementError(f"{subject} is to act on {DENSE}, which {what}. Leave {DENSE} out of ON.", subject=subject)


def slot_numbers(columns: Columns) -> tuple[tuple[str, int], ...]:
    """Return the slots that have rows of their own, and their numbers."""
    return tuple((slot.name, slot.number) for slot in columns.slots if slot.source == slot.name)


def make_chain(
    algorithm: Algorithm, spec: TableSpec, operators: Sequence[UsedOperator], follows: bool, at_rates: bool
) -> Operator:
    """Compose a table's own operators and a statement's, in its order; the algorithm's optimizer ends the chain where
    none is named.

    What is offered of features is kept once, in the first table, and the statement decides there which keys have rows.

    Args:
        follows: the table comes after another one.
        at_rates: steps of its optimizer are multiplied by a rate.
    """
    made = [make_operator(used.part, used.options, spec) for used in operators if used.acts_on(spec.name)]
    if follows:
        made = [operator for operator in made if not operator.offers and not operator.lives]
    made = [*algorithm.operators(spec), *made]
    if not any(operator.optimizer for operator in made):
        made.append(algorithm.optimizer(spec))
    if at_rates:
        made[-1] = paced(made[-1])
    if algorithm.traits.statistics and not follows:
        made.insert(-1, statistics_of_rows(algorithm.traits.statistics))  # after what others offer
    try:
        return chain(*map(checked, made))
    except ValueError as error:
        raise StatementError(f"{OPERATORS} cannot be composed: {error}", subject=OPERATORS.subject) from error


def options_in(manifest: Manifest) -> dict[str, Any]:
    """Return the options of a trained version's algorithm, as given then.

    Raises:
        ModelError: no training writes such options.
    """
    options = dict(manifest.algorithm.options)
    parts.part_in(manifest).check_carried(options)
    return options


def algorithm_of(manifest: Manifest) -> Algorithm:
    """Make the algorithm of a trained version.

    Raises:
        StatementError: its package is not installed, or its options have changed.
        ModelError: its options are not those that its rows were learned with.
    """
    part = parts.part_in(manifest)
    options = parts.ALGORITHM.options(part, written(options_in(manifest)))
    made = make_algorithm(part, options, columns_from(manifest).layout)
    wanted, tables = [(table.name, table.dim) for table in made.tables], {table.name: table.dim for table in manifest.tables}
    if any(tables.get(name) != dim for name, dim in wanted):
        raise ModelError(
            f"The manifest of {manifest.model} v{manifest.version} is damaged: with its options {part.name} has "
            f"the tables (name, floats) {wanted}, and the version has {list(tables.items())}. Restore it from a backup."
        )
    return made


def sums_of_scores(algorithm: Algorithm, columns: Columns) -> Sums | None:
    """Return the sums that scores are; None where they are more than that, or there is more than scores."""
    more = columns.offered or columns.sides or algorithm.outputs or algorithm.traits.logarithmic or scores_augmented(algorithm)
    return None if more else algorithm.sums


def scores_augmented(algorithm: Algorithm) -> bool:
    """Return whether examples are changed before they are scored."""
    return any(augment.scores for augment in algorithm.learns.augment)


def planned(plan: Plan, layout: Layout) -> Algorithm:
    """Make the algorithm that a plan names."""
    return make_algorithm(part_of(plan), plan.algorithm.options, layout)


def part_of(plan: Plan) -> parts.AnyPart:
    """Return the algorithm's part."""
    return plan.algorithm.part or parts.ALGORITHM.find(plan.algorithm.name, None)


@functools.lru_cache(maxsize=KEPT)
def make_algorithm(part: parts.AnyPart, options: Any, layout: Layout) -> Algorithm:
    """Make an algorithm; the same one for the same arguments, so that what was compiled for it is found again."""
    with blaming("algorithm", part.name):
        make = with_sides(with_pools(part.make, layout), layout)
        made = make(options, layout)
    return dataclasses.replace(made, learns=made.learns.guarded(functools.partial(blamed, "algorithm", part.name)))


def make_operator(part: parts.AnyPart, options: Any, table: TableSpec) -> Operator:
    with blaming("operator", part.name):
        made: Operator = part.make(options, table)
        return made

"""The conformance suite of operators, for ours and for plugins; `xpsql.testing` offers it.

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..platform.operators import OPERATORS
from ..platform.operators.base import Context, Operator, Rows, TableSpec, pull, push
from ..platform.operators.chains import chain
from ..platform.operators.ftrl import FTRL
from ..platform.options import Part

SIZE, DIM, SEED = 8, 2, 7
PADDED_SIZES, WHOLE_SIZE = (64, 72, 144), 256
STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")

NEEDED: Mapping[str, Mapping[str, Any]] = {"admit": {"min_count": 2}, "expire": {"after": "30 days"}}

Arrays = Mapping[str, NDArray[Any]]


class PushInput(NamedTuple):
    """The input of one push: rows, gradients float32[n, DIM] and context."""

    rows: Arrays
    gradients: NDArray[np.float32]
    context: Context


class OperatorTrial:
    """An operator in a chain, its push and pull compiled once for all checks.

    Args:
        part: the operator's part.
        options: its options; None: its defaults.
        before: operators that stand before it in the chain.
        after: operators that stand after it; None: ftrl, if it is no optimizer itself.
    """

    def __init__(
        self,
        part: Part[Any, Operator],
        options: Any = None,
        before: tuple[Operator, ...] = (),
        after: tuple[Operator, ...] | None = None,
    ) -> None:
        operator = part.make(part.options() if options is None else options, TABLE)
        self.operator, self.name = operator, part.name
        if after is None:
            after = () if operator.optimizer else (FTRL.make(FTRL.options(), TABLE),)
        self.chain = chain(*before, operator, *after)
        self.push = jax.jit(partial(push, self.chain))
        self.pull = jax.jit(partial(pull, self.chain))

    def stored(self) -> list[str]:
        """Return the names of the columns that a table keeps."""
        return [name for name, column in self.chain.columns.items() if not column.transient]

    def example(self, size: int = SIZE) -> PushInput:
        """Return a push to rows that have been updated before, all of them valid."""
        fresh = new_rows(self.chain, keys(size))
        gradients = np.random.default_rng(SEED).normal(size=(3, size, DIM)).astype(np.float32)
        rows = fresh
        for step in range(2):
            rows = {**rows, **as_numpy(self.push(rows, gradients[step], context(size))[0])}
        return PushInput(rows, gradients[2], context(size))


def initial_weights(seed: int, keys: jax.Array) -> jax.Array:
    """Small weights that are a function of the key."""
    return jnp.sin(keys[:, :1] + jnp.arange(1.0, DIM + 1)) / 10


TABLE = TableSpec("weights", DIM, initial_weights)


def keys(size: int) -> NDArray[np.uint32]:
    return np.arange(1, 2 * size + 1, dtype=np.uint32).reshape(size, 2)


def new_rows(chain: Operator, keys: NDArray[np.uint32]) -> Arrays:
    """Return rows as a table creates them."""
    columns = {name: column for name, column in chain.columns.items() if not column.transient}
    zeros: Arrays = {name: np.zeros(len(keys), np.uint32) for name in STATISTICS}
    starts = {
        name: np.zeros((len(keys), c.dim), np.float32) if c.init is None else np.asarray(jax.jit(partial(c.init, SEED))(keys))
        for name, c in columns.items()
    }
    return {**zeros, **starts}


def context(size: int, valid: int | None = None) -> Context:
    """Return the context of a push of rows that occurred 1, 2, 3, 1, ... times, of differing staleness and age."""
    index: Any = np.arange(size, dtype=np.uint32)  # by NumPy, since JAX would compile a program for each operation
    made = Context(
        valid=index < (size if valid is None else valid),
        keys=jnp.asarray(keys(size)),
        count=1 + index % 3,
        shows=1 + index % 3,
        clicks=index % 2,
        updates=index + 2,
        staleness=index % 4,
        pulled=(np.cos(np.arange(DIM) + index[:, None]) / 10).astype(np.float32),
        age_seconds=(index * 86_400).astype(np.float32),
        idle_seconds=(index * 86_400).astype(np.float32),
        new=index < 0,
        slot=index % 5,
        draw=jnp.asarray([SEED, 0, 1, 2], jnp.uint32),
        base_rate=jnp.asarray(0.3, jnp.float32),
        rate=jnp.asarray(1, jnp.float32),
        examples=jnp.asarray(1000, jnp.float32),
        pushed=jnp.asarray(100, jnp.float32),
    )
    arrays: Context = jax.tree.map(jnp.asarray, made)
    return arrays


def as_numpy(rows: Rows) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(values) for name, values in rows.items()}


def head(arrays: Rows | Arrays, num_rows: int) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(values)[:num_rows] for name, values in arrays.items()}


def assert_same(found: Rows | Arrays, expected: Rows | Arrays, what: str, rtol: float = 0) -> None:
    """Raise AssertionError unless two sets of columns agree, to the bit where rtol is 0."""
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol, rtol, err_msg=f"column {name}: {what}")


def shapes_and_dtypes_are_kept(trial: OperatorTrial) -> None:
    """A push returns every stored column with the shape and dtype that it came with; a pull returns the weights."""
    example = trial.example()
    stored, transient = trial.push(*example)
    for name, values in {**stored, **transient}.items():
        expected = (SIZE, trial.chain.columns[name].dim), np.float32
        found = values.shape, values.dtype
        if found != expected:
            raise AssertionError(f"column {name}: expected shape and dtype {expected}, got {found}")
    if set(stored) != set(trial.stored()):
        raise AssertionError(f"expected columns {trial.stored()}, got {sorted(stored)}")
    np.testing.assert_equal(np.asarray(trial.pull(example.rows, example.context)).shape, (SIZE, DIM))


def finite_input_gives_finite_rows(trial: OperatorTrial) -> None:
    """Ordinary gradients leave no NaN or infinity, in stored columns or in weights."""
    example = trial.example()
    stored = as_numpy(trial.push(*example)[0])
    weights = trial.pull({**example.rows, **stored}, example.context)
    for name, values in {**stored, "w": np.asarray(weights)}.items():
        if not np.isfinite(values).all():
            raise AssertionError(f"column {name} is not finite after a push of finite gradients: {values}")


def jit_changes_nothing(trial: OperatorTrial) -> None:
    """A jitted push equals one that runs operation by operation."""
    example = trial.example()
    eager = push(trial.chain, *jax.tree.map(jnp.asarray, example))
    for found, expected in zip(trial.push(*example), eager, strict=True):
        assert_same(found, expected, "jit gives another result", rtol=1e-5)


def same_input_gives_same_output(trial: OperatorTrial) -> None:
    """An operator is pure: a second push of the same input gives the same bits, and the input is as before."""
    example = trial.example()
    kept = jax.tree.map(np.copy, example)
    first, second = trial.push(*example), trial.push(*kept)
    for found, expected in zip(second, first, strict=True):
        assert_same(found, expected, "the same input gave another result")
    assert_same(example.rows, kept.rows, "a push changed its input")


def padding_changes_nothing(trial: OperatorTrial) -> None:
    """With 0 to n padded entries, whatever they hold, the valid ones get the same bits and nothing padded is counted."""
    example = trial.example()
    whole = trial.push(*example)
    for valid in range(SIZE + 1):
        padded = padding_of(example, valid)
        stored, transient = trial.push(*padded)
        assert_same(head(stored, valid), head(whole[0], valid), f"padding from entry {valid} on changed a valid entry")
        assert_same(head(transient, valid), head(whole[1], valid), f"padding from entry {valid} on changed a valid entry")
        for name, values in transient.items():
            np.testing.assert_array_equal(np.asarray(values)[valid:], 0, f"column {name} counts padding")


def any_padded_size_gives_the_same_bits(trial: OperatorTrial) -> None:
    """A row gets the same bits whatever number of rows a program is compiled for, and is offered and pulled the same."""
    example = varied(trial.example(WHOLE_SIZE))
    read = jax.jit(partial(read_and_offered, trial.chain))
    whole = {**trial.push(*example)[0], **read(example.rows, example.context)}
    for size in PADDED_SIZES:
        rows, gradients, context = first_rows(example, size)
        found = {**trial.push(rows, gradients, context)[0], **read(rows, context)}
        assert_same(found, head(whole, size), f"a program for {size} rows gives another result than one for {WHOLE_SIZE}")


def varied(example: PushInput) -> PushInput:
    """Return a push to rows of which no two are alike, so that roundings differ."""
    draw = np.random.default_rng(SEED)
    columns = {name: values for name, values in example.rows.items() if values.dtype == np.float32}
    changed = {name: values * draw.uniform(0.5, 1.5, values.shape).astype(np.float32) for name, values in columns.items()}
    return example._replace(rows={**example.rows, **changed})


def first_rows(example: PushInput, size: int) -> PushInput:
    """Return the first rows of a push of WHOLE_SIZE."""
    cut: PushInput = jax.tree.map(lambda values: values[:size] if values.shape[:1] == (WHOLE_SIZE,) else values, example)
    return cut


def read_and_offered(chain: Operator, rows: Rows, context: Context) -> Rows:
    read = chain.read(rows, context)
    offered = {} if chain.offer is None else {"what is offered": chain.offer(read, context)}
    return {"w as pulled": read["w"], **offered}


def padding_of(example: PushInput, valid: int) -> PushInput:
    """Return the push with NaN and other rubbish in the entries from `valid` on."""
    floats = {name: v.copy() for name, v in example.rows.items() if v.dtype == np.float32}
    for values in floats.values():
        values[valid:] = -1e30
    gradients = example.gradients.copy()
    gradients[valid:] = np.nan
    return PushInput({**example.rows, **floats}, gradients, context(SIZE, valid))


def an_empty_push_is_harmless(trial: OperatorTrial) -> None:
    """A push of padding alone, as zeros, runs and reports nothing."""
    example = trial.example()
    zeros: PushInput = jax.tree.map(np.zeros_like, example)
    _, transient = trial.push(*zeros)
    for name, values in transient.items():
        np.testing.assert_array_equal(values, 0, f"column {name} counts padding")


def one_row_is_enough(trial: OperatorTrial) -> None:
    """A push of one row gives what the row gets in a larger push."""
    example = trial.example()
    whole, _ = trial.push(*example)
    alone, _ = trial.push(*jax.tree.map(lambda values: values[:1] if values.shape[:1] == (SIZE,) else values, example))
    assert_same(alone, head(whole, 1), "a push of one row differs from the same row in a larger push", rtol=1e-5)


def nan_stays_in_its_row(trial: OperatorTrial) -> None:
    """NaN and infinity in the gradients of some rows change no bit of the others."""
    example = trial.example()
    whole, _ = trial.push(*example)
    gradients = example.gradients.copy()
    gradients[0], gradients[3, 1] = np.nan, np.inf
    broken, _ = trial.push(example.rows, gradients, example.context)
    others = np.array([i not in (0, 3) for i in range(SIZE)])
    pairs = ((np.asarray(broken[name])[others], np.asarray(whole[name])[others], name) for name in whole)
    for found, expected, name in pairs:
        np.testing.assert_array_equal(found, expected, f"column {name}: NaN in one row reached another")


def state_is_all_in_the_columns(trial: OperatorTrial) -> None:
    """Push, store as numpy, restore, push equals two pushes in a row: nothing is remembered outside the columns."""
    example = trial.example()
    once, _ = trial.push(*example)
    direct, _ = trial.push({**example.rows, **once}, example.gradients, example.context)
    stored = {name: values.tobytes() for name, values in as_numpy(once).items()}
    restored = {name: np.frombuffer(data, np.float32).reshape(SIZE, -1) for name, data in stored.items()}
    later, _ = trial.push({**example.rows, **restored}, example.gradients, example.context)
    assert_same(later, direct, "continuing from stored columns gives another result")


def a_pull_changes_nothing(trial: OperatorTrial) -> None:
    """Two pulls see the same weights, whatever was pulled between."""
    example = trial.example()
    first = trial.pull(example.rows, example.context)
    np.testing.assert_array_equal(trial.pull(example.rows, example.context), first)


def what_is_offered_is_of_the_row_alone(trial: OperatorTrial) -> None:
    """What an operator offers is finite, has a float per name, and is the same whatever stands beside a row."""
    names, offer = trial.chain.offers, trial.chain.offer
    if offer is None:
        return
    stored, _, known = trial.example()
    rows = {name: jnp.asarray(values) for name, values in stored.items()}
    whole = np.asarray(offer(trial.chain.read(rows, known), known))
    if whole.shape != (SIZE, len(names)) or not np.isfinite(whole).all():
        raise AssertionError(f"expected finite float32{[SIZE, len(names)]} for {', '.join(names)}, got {whole}")
    first = {name: values[:1] for name, values in rows.items()}
    alone = jax.tree.map(lambda values: values[:1] if np.ndim(values) else values, known)
    np.testing.assert_allclose(offer(trial.chain.read(first, alone), alone), whole[:1], 1e-5, 1e-6)


def any_other_operator_may_stand_beside_it(trial: OperatorTrial) -> None:
    """Chained before or after any other operator, with any optimizer, it leaves rows and weights finite."""
    for part in OPERATORS:
        if part.name == trial.name:
            continue
        other = usual(part, TABLE)
        for composed in chains_of(trial.operator, other):
            rows = {name: jnp.asarray(values) for name, values in new_rows(composed, keys(SIZE)).items()}
            gradients = jnp.asarray(trial.example().gradients)
            for sign in (1, -1):
                rows = {**rows, **push(composed, rows, sign * gradients, context(SIZE))[0]}
            for name, values in {**rows, "w": pull(composed, rows, context(SIZE))}.items():
                if not np.isfinite(values).all():
                    raise AssertionError(f"column {name} is not finite after two pushes through the chain {composed.name}")


def usual(part: Part[Any, Operator], table: TableSpec) -> Operator:
    """Make an operator of ours with its defaults, and options where it has to have some."""
    return part.make(part.options(**NEEDED.get(part.name, {})), table)


def chains_of(one: Operator, other: Operator) -> list[Operator]:
    """Return the chains of two operators, in every order that is allowed."""
    if one.optimizer or other.optimizer:
        return [] if one.optimizer and other.optimizer else [chain(*sorted((one, other), key=lambda o: o.optimizer))]
    end = FTRL.make(FTRL.options(), TABLE)
    return [chain(one, other, end), chain(other, one, end)]


OPERATOR_CHECKS: tuple[Callable[[OperatorTrial], None], ...] = (
    shapes_and_dtypes_are_kept,
    finite_input_gives_finite_rows,
    jit_changes_nothing,
    same_input_gives_same_output,
    padding_changes_nothing,
    any_padded_size_gives_the_same_bits,
    an_empty_push_is_harmless,
    one_row_is_enough,
    nan_stays_in_its_row,
    state_is_all_in_the_columns,
    a_pull_changes_nothing,
    what_is_offered_is_of_the_row_alone,
    any_other_operator_may_stand_beside_it,
)

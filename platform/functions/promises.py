"""What folds and updates promise, as checks: `xpsql.testing` offers them, and a statement holds the functions of a user's file
to them before these see a model.

Each check raises AssertionError with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..operators.base import Context, Rows
from .base import Fold, FoldPart, Piece, RowTable, State, UpdatePart

Arrays = Mapping[str, NDArray[Any]]

ROWS, NUM_SLOTS, SEED = 24, 5, 7
STATISTICS = ("count", "updates", "shows", "clicks", "last_seen")
ROW_TABLE = RowTable(
    "weights",
    {"z": 2, "n": 2, "bias": 1, "w": 2},
    tuple((f"slot_{number}", number) for number in range(NUM_SLOTS)),
    lambda seed, keys: jnp.sin(keys[:, :1] + jnp.arange(1.0, 3.0)) / 10,
)
"""What parts are tried with: vectors of two floats, learned by ftrl, and a column of one."""


def floats(table: RowTable, rows: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Return random float columns."""
    draw = np.random.default_rng(seed)
    return {name: draw.normal(size=(rows, dim)).astype(np.float32) for name, dim in table.columns.items()}


class FoldTrial:
    """A fold over made rows.

    Args:
        part: the fold's part.
        options: its options; None: its defaults.
        table: whose rows.
    """

    def __init__(self, part: FoldPart, options: Any = None, table: RowTable = ROW_TABLE) -> None:
        self.table = table
        self.fold: Fold = part.make(part.options() if options is None else options, table)

    def piece(self, rows: int = ROWS, seed: int = SEED) -> dict[str, NDArray[Any]]:
        """Return rows of random numbers, whose keys differ from those of other seeds."""
        draw = np.random.default_rng(seed)
        numbers = np.array([number for _, number in self.table.slots] or [0], np.uint16)
        counts = {name: draw.integers(0, 1000, rows).astype(np.uint32) for name in STATISTICS}
        keys = draw.permutation(np.arange(rows)).astype(np.uint64) * np.uint64(1 << 40) + np.uint64(seed)
        own = {name: values for name, values in floats(self.table, rows, seed).items() if name in self.fold.columns}
        return {"key": keys, "slot": draw.choice(numbers, rows), **counts, **own}

    def state(self, *pieces: Piece) -> State:
        """Return the state of some pieces, one after another."""
        state = self.fold.zero
        for piece in pieces:
            state = self.fold.add(state, piece)
        return state


def chosen(piece: Piece, rows: Any) -> dict[str, NDArray[Any]]:
    return {name: values[rows] for name, values in piece.items()}


def assert_states(found: State, expected: State, what: str) -> None:
    """Raise AssertionError unless states agree: floats but for rounding, all else to the bit."""
    if set(found) != set(expected):
        raise AssertionError(f"{what}: expected {sorted(expected)}, got {sorted(found)}")
    for name, values in expected.items():
        if np.issubdtype(np.asarray(values).dtype, np.floating):
            np.testing.assert_allclose(found[name], values, 1e-9, 1e-12, err_msg=f"{what}: {name}")
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=f"{what}: {name}")


def states_keep_their_shapes_and_types(trial: FoldTrial) -> None:
    """What `add` and `merge` return has the names, shapes and types of `zero`."""
    one = trial.state(trial.piece())
    expected = {name: (values.shape, values.dtype) for name, values in trial.fold.zero.items()}
    for state in (one, trial.fold.merge(one, trial.state(trial.piece(seed=8)))):
        found = {name: (values.shape, values.dtype) for name, values in state.items()}
        if found != expected:
            raise AssertionError(f"expected a state of {expected}, got {found}")


def zero_changes_nothing(trial: FoldTrial) -> None:
    """Merged with `zero`, from either side, a state stays as it is."""
    zero, state, merge = trial.fold.zero, trial.state(trial.piece()), trial.fold.merge
    assert_states(merge(zero, state), state, "merged with zero before it")
    assert_states(merge(state, zero), state, "merged with zero after it")


def merge_is_associative(trial: FoldTrial) -> None:
    """(a + b) + c is a + (b + c)."""
    a, b, c = (trial.state(trial.piece(7 * seed, seed)) for seed in (1, 2, 3))
    merge = trial.fold.merge
    assert_states(merge(merge(a, b), c), merge(a, merge(b, c)), "merge is not associative")


def merge_is_commutative(trial: FoldTrial) -> None:
    """a + b is b + a."""
    a, b = (trial.state(trial.piece(7 * seed, seed)) for seed in (1, 2))
    assert_states(trial.fold.merge(a, b), trial.fold.merge(b, a), "merge is not commutative")


def rows_may_be_cut_anyhow(trial: FoldTrial) -> None:
    """Rows give the same state in one piece, in several, and in several that are merged."""
    piece = trial.piece()
    whole = trial.state(piece)
    cuts = [chosen(piece, slice(start, stop)) for start, stop in ((0, 1), (1, 9), (9, ROWS))]
    assert_states(trial.state(*cuts), whole, "other pieces give another state")
    first, *others = (trial.state(cut) for cut in cuts)
    for other in others:
        first = trial.fold.merge(first, other)
    assert_states(first, whole, "pieces that are merged give another state")


def rows_may_come_in_any_order(trial: FoldTrial) -> None:
    """A permutation of the rows gives the same state."""
    piece = trial.piece()
    other = chosen(piece, np.random.default_rng(SEED).permutation(ROWS))
    assert_states(trial.state(other), trial.state(piece), "another order of the rows gives another state")


def no_rows_change_nothing(trial: FoldTrial) -> None:
    """A piece without rows leaves a state as it is."""
    state = trial.state(trial.piece())
    assert_states(trial.fold.add(state, trial.piece(0)), state, "a piece without rows changed the state")


def what_is_given_stays_as_it_is(trial: FoldTrial) -> None:
    """`add` and `merge` change neither their states nor the piece, and give the same for the same."""
    piece, state = trial.piece(), trial.state(trial.piece(seed=8))
    kept = {name: values.copy() for name, values in {**state, **{f"@{n}": v for n, v in piece.items()}}.items()}
    first = trial.fold.add(state, piece)
    assert_states(trial.fold.add(state, piece), first, "the same rows gave another state")
    trial.fold.merge(state, first)
    now = {**state, **{f"@{name}": values for name, values in piece.items()}}
    assert_states(now, kept, "what was given was changed")


def results_are_rows(trial: FoldTrial) -> None:
    """`result` returns a table, of the same columns for no rows and for many, and no NaN where some rows have one."""
    piece = trial.piece()
    broken = {name: values.copy() for name, values in piece.items()}
    for name in trial.fold.columns:
        broken[name][0] = np.nan
    empty, found = trial.fold.result(trial.fold.zero), trial.fold.result(trial.state(broken))
    if not isinstance(found, pa.Table) or found.schema.names != empty.schema.names:
        raise AssertionError(f"expected a table of the columns {empty.schema.names}, got {found}")
    for name, column in zip(found.schema.names, found.columns, strict=True):
        if pa.types.is_floating(column.type) and np.isnan(column.drop_null().to_numpy()).any():
            raise AssertionError(f"column {name}: a row that is no number made the result none")


class UpdateTrial:
    """An update of made rows, compiled once for all checks; arguments as of FoldTrial."""

    def __init__(self, part: UpdatePart, options: Any = None, table: RowTable = ROW_TABLE) -> None:
        self.table = table
        self.update = part.make(part.options() if options is None else options, table)
        self.changed = jax.jit(self.eager)

    def eager(self, rows: Rows, given: Context) -> Rows:
        """Return what the update makes of rows, and which of them end, as the column `ends`."""
        found = {**rows, **self.update.update(rows, given)}
        if self.update.ends is None:
            return found
        return {**found, "ends": self.update.ends(rows, given)}

    def rows(self, size: int = ROWS) -> Arrays:
        """Return rows of random numbers."""
        draw = np.random.default_rng(SEED)
        return {**{name: draw.integers(0, 9, size).astype(np.uint32) for name in STATISTICS}, **floats(self.table, size, SEED)}

    def context(self, size: int = ROWS, valid: int | None = None) -> Context:
        """Return their context: of a pull, of rows that were seen on different days."""
        index: Any = np.arange(size, dtype=np.uint32)
        numbers: Any = np.array([number for _, number in self.table.slots] or [0], np.uint32)
        none: Any = np.zeros(size, np.uint32)
        day = np.float32(86_400)
        made = Context(
            valid=index < (size if valid is None else valid),
            keys=jnp.stack([index * 2 + 1, index], 1),
            count=none,
            shows=none,
            clicks=none,
            updates=index + 2,
            staleness=none,
            pulled=jnp.zeros((size, self.table.dim)),
            age_seconds=index * day,
            idle_seconds=index * day,
            new=index < 0,
            slot=numbers[index % len(numbers)],
            draw=jnp.zeros(4, jnp.uint32),
            base_rate=jnp.float32(0.3),
            examples=jnp.float32(1000),
            pushed=jnp.float32(0),
            rate=jnp.float32(1),
        )
        arrays: Context = jax.tree.map(jnp.asarray, made)
        return arrays


def part_of(given: Context, rows: Any, size: int) -> Context:
    """Return the context of some of the rows."""
    cut: Context = jax.tree.map(lambda values: values[rows] if values.shape[:1] == (size,) else values, given)
    return cut


def as_numpy(rows: Rows) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(values) for name, values in rows.items()}


def head(arrays: Rows | Arrays, num_rows: int) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(values)[:num_rows] for name, values in arrays.items()}


def assert_bits(found: Rows | Arrays, expected: Rows | Arrays, what: str) -> None:
    for name in expected:
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(expected[name]), err_msg=f"{what}: {name}")


def columns_keep_their_shapes_and_types(trial: UpdateTrial) -> None:
    """Every column comes back with its shape and type; `ends` is bool[n]."""
    rows = trial.rows()
    for name, values in trial.changed(rows, trial.context()).items():
        expected = ((ROWS,), np.dtype(np.bool_)) if name == "ends" else (rows[name].shape, rows[name].dtype)
        if (values.shape, values.dtype) != expected:
            raise AssertionError(f"column {name}: expected {expected}, got {(values.shape, values.dtype)}")


def compiled_it_does_the_same(trial: UpdateTrial) -> None:
    """A jitted update equals one that runs operation by operation, and gives the same bits again."""
    rows, given = trial.rows(), trial.context()
    first = as_numpy(trial.changed(rows, given))
    for name, values in trial.eager({n: jnp.asarray(v) for n, v in rows.items()}, given).items():
        np.testing.assert_allclose(first[name], values, 1e-5, 1e-6, err_msg=f"jit gives another {name}")
    assert_bits(trial.changed(rows, given), first, "the same rows gave another result")


def a_row_depends_on_itself_alone(trial: UpdateTrial) -> None:
    """Rows in another order, in two pieces, and one alone come out with the same bits."""
    rows, given = trial.rows(), trial.context()
    whole = as_numpy(trial.changed(rows, given))
    order = np.random.default_rng(SEED).permutation(ROWS)
    for some in (order, np.arange(ROWS // 3), np.arange(ROWS // 3, ROWS), np.arange(1)):
        found = trial.changed({name: values[some] for name, values in rows.items()}, part_of(given, some, ROWS))
        assert_bits(found, {name: values[some] for name, values in whole.items()}, "a row depends on other rows")


def padding_stays_outside(trial: UpdateTrial) -> None:
    """With 0 to n padded entries, whatever they hold, the valid ones get the same bits."""
    rows = trial.rows()
    whole = as_numpy(trial.changed(rows, trial.context()))
    for valid in (0, 1, ROWS // 2, ROWS - 1):
        padded = {name: values.copy() for name, values in rows.items()}
        for name in trial.table.columns:
            padded[name][valid:] = -1e30
        found = trial.changed(padded, trial.context(valid=valid))
        assert_bits(head(found, valid), head(whole, valid), f"padding from entry {valid} on changed a valid entry")


def nan_stays_where_it_is(trial: UpdateTrial) -> None:
    """NaN in one row changes no bit of the others."""
    rows = {name: values.copy() for name, values in trial.rows().items()}
    whole = as_numpy(trial.changed(rows, trial.context()))
    for name in trial.table.columns:
        rows[name][0] = np.nan
    found = as_numpy(trial.changed(rows, trial.context()))
    others = {name: values[1:] for name, values in whole.items()}
    assert_bits({name: values[1:] for name, values in found.items()}, others, "NaN in one row reached another")


def statistics_are_only_read(trial: UpdateTrial) -> None:
    """count, updates, shows, clicks and last_seen come back as they were."""
    rows = trial.rows()
    found = trial.changed(rows, trial.context())
    assert_bits(found, {name: rows[name] for name in STATISTICS}, "an update may not change a statistic")


FOLD_CHECKS: tuple[Callable[[FoldTrial], None], ...] = (
    states_keep_their_shapes_and_types,
    zero_changes_nothing,
    merge_is_associative,
    merge_is_commutative,
    rows_may_be_cut_anyhow,
    rows_may_come_in_any_order,
    no_rows_change_nothing,
    what_is_given_stays_as_it_is,
    results_are_rows,
)
UPDATE_CHECKS: tuple[Callable[[UpdateTrial], None], ...] = (
    columns_keep_their_shapes_and_types,
    compiled_it_does_the_same,
    a_row_depends_on_itself_alone,
    padding_stays_outside,
    nan_stays_where_it_is,
    statistics_are_only_read,
)

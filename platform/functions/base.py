"""The contract of functions on rows where they lie: folds, which say something of all rows, updates, which change rows one by
one, and readings, which say a few numbers of each row that is asked for by its key.

A fold goes over the rows of a table in pieces:

    state = fold.zero
    state = fold.add(state, piece)        # any number of times, the pieces in any order and cut anyhow
    state = fold.merge(state, other)      # of pieces that somebody else went over
    answer = fold.result(state)

A piece is a mapping of NumPy arrays: `key` uint64[n], `slot` uint16[n], `count`, `updates`, `shows`, `clicks`, `last_seen`
uint32[n], and the float columns that the fold names, float32[n, dim], where `w` has the weights as a pull sees them. A state is
a mapping of arrays whose names, shapes and types are those of `zero`. `merge` is associative and commutative, and `zero`
changes nothing: so results depend neither on the number of shards nor on who was first, but for the rounding of sums.

An update is a pure function of JAX, as an operator's: rows as a pull sees them and their context become rows. What it returns
of a row depends on that row alone; statistics are read-only. The table's optimizer brings its state into agreement with the
weights then (`settle` of operators/base.py): after `scale` of ftrl's w, its z is the one whose w that is.

A reading is a pure function of NumPy: the weights of some rows as a pull sees them, float32[n, dim], and arrays that who asks
has brought, become float32[n, width]. What it returns of a row depends on that row and the arrays alone. So only these numbers
travel, where a pull would bring whole rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import OptionError, Subject, suggestion
from ..options import Part

if TYPE_CHECKING:
    import jax

    from ..operators.base import Context, Rows

Piece = Mapping[str, NDArray[Any]]
State = Mapping[str, NDArray[Any]]
COUNTED = ("count", "updates", "shows", "clicks")


class RowTable(NamedTuple):
    """A table as its functions see it.

    Attributes:
        name: of the table.
        columns: the floats of each float column; `w` has the weights.
        slots: the slots whose features have rows, and their numbers.
        init: how new weights start, as of TableSpec; None: zeros.
    """

    name: str
    columns: Mapping[str, int]
    slots: tuple[tuple[str, int], ...] = ()
    init: Callable[[int, jax.Array], jax.Array] | None = None

    @property
    def dim(self) -> int:
        """The floats of a row's weights."""
        return self.columns["w"]

    def number(self, slot: str, subject: Subject) -> int:
        """Return the number of a slot.

        Raises:
            OptionError: no slot of that name has rows.
        """
        for name, number in self.slots:
            if name.lower() == slot.lower():
                return number
        names = [name for name, _ in self.slots]
        raise OptionError(f"{subject} names {slot!r}, which has no rows.{suggestion(slot, names)}", subject=subject)


class Fold(NamedTuple):
    """A fold, see above.

    Attributes:
        zero: the state of no rows.
        add: (state, piece) -> state; neither is changed.
        merge: (state, state) -> state.
        result: the state as rows; `key` int64 and `slot` as ML.WEIGHTS has them, where it has keys.
        columns: the float columns that it reads.
    """

    zero: State
    add: Callable[[State, Piece], State]
    merge: Callable[[State, State], State]
    result: Callable[[State], pa.Table]
    columns: tuple[str, ...] = ("w",)


def keep_all(rows: Rows, context: Context) -> Rows:
    return rows


class Update(NamedTuple):
    """An update, see above.

    Attributes:
        update: (rows, context) -> rows.
        ends: (rows, context) -> bool[n], rows that are removed; those of the first table take the key's others along.
        once: it means nothing to a training that goes on: the next push would undo it.
        trials: what it removes is removed from what is known of features without a row, too.
    """

    update: Callable[[Rows, Context], Rows] = keep_all
    ends: Callable[[Rows, Context], jax.Array] | None = None
    once: bool = False
    trials: bool = False


class KeyedReading(NamedTuple):
    """A reading, see above.

    Attributes:
        read: (weights, arrays) -> float32[n, width]; neither is changed.
        width: numbers of each row.
        arrays: the shapes of the float32 arrays that who asks brings, by name.
    """

    read: Callable[[NDArray[np.float32], Mapping[str, NDArray[np.float32]]], NDArray[np.float32]]
    width: int = 1
    arrays: Mapping[str, tuple[int, ...]] = MappingProxyType({})


FoldPart = Part[Any, Fold]
UpdatePart = Part[Any, Update]
ReadingPart = Part[Any, KeyedReading]


def plus(one: State, other: State) -> State:
    """Return the sum of two states, name by name."""
    return {name: values + other[name] for name, values in one.items()}


def measure(of: str, table: RowTable, subject: Subject) -> tuple[Callable[[Piece], NDArray[np.float64]], tuple[str, ...]]:
    """Return what a fold measures of each row, float64[n], and the float columns that it reads.

    Args:
        of: "abs_w", the size of the weights; a statistic; or a column of one float.

    Raises:
        OptionError: the table has no such column, or it has several floats.
    """
    if of == "abs_w":
        return sizes, ("w",)
    if of in COUNTED:
        return lambda piece: piece[of].astype(np.float64), ()
    if table.columns.get(of) == 1:
        return lambda piece: piece[of][:, 0].astype(np.float64), (of,)
    valid = ["abs_w", *COUNTED, *(name for name, dim in table.columns.items() if dim == 1)]
    why = (
        f"has {table.columns[of]} floats in table {table.name}" if of in table.columns else f"table {table.name} does not have"
    )
    raise OptionError(f"{subject} is {of!r}, which {why}. It takes one of {', '.join(valid)}.", subject=subject)


def sizes(piece: Piece) -> NDArray[np.float64]:
    """Return |w| of each row, the norm of a vector."""
    w = piece["w"].astype(np.float64)
    return np.abs(w[:, 0]) if w.shape[1] == 1 else np.sqrt((w * w).sum(1))


def numbers(values: tuple[Any, ...], subject: Subject) -> NDArray[np.float64]:
    """Return an option's list of finite numbers.

    Raises:
        OptionError: something else is in it.
    """
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in values):
        raise OptionError(f"{subject} expects numbers, like (0.1, 0.5), got {values!r}.", subject=subject)
    return np.array(values, np.float64)


class FoldGroups(NamedTuple):
    """What a fold has a row for: each slot, or all rows at once."""

    names: tuple[str, ...] | None
    numbers: NDArray[np.uint16]

    def __len__(self) -> int:
        return 1 if self.names is None else len(self.names)

    def places(self, piece: Piece) -> NDArray[np.intp]:
        """Return the group of each row of a piece."""
        if self.names is None:
            return np.zeros(len(piece["key"]), np.intp)
        order = np.argsort(self.numbers)
        found: NDArray[np.intp] = order[np.searchsorted(self.numbers, piece["slot"], sorter=order).clip(0, len(order) - 1)]
        return found

    def sums(self, places: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of values by group."""
        return np.bincount(places, values, len(self)).astype(np.float64)

    def counts(self, places: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many rows each group has."""
        return np.bincount(places, minlength=len(self)).astype(np.int64)

    def table(self, columns: Mapping[str, NDArray[Any]]) -> pa.Table:
        """Return a row for each group."""
        named = {} if self.names is None else {"slot": pa.array(self.names, pa.string())}
        return pa.table({**named, **{name: pa.array(values) for name, values in columns.items()}})


def groups_by(by: str, table: RowTable) -> FoldGroups:
    """Return the groups of an option `by`: "all" or "slot"."""
    if by == "all":
        return FoldGroups(None, np.empty(0, np.uint16))
    return FoldGroups(tuple(name for name, _ in table.slots), np.array([number for _, number in table.slots], np.uint16))

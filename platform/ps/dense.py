"""Dense parameters: whole named arrays dealt over shards, each with the state of an optax optimizer.

    program = DenseProgram(specs, optax.adam(1e-3), seed)        # of a recipe; shards share it
    dense = program.part(number=0, num_shards=2)                 # of a shard
    dense.push({name: gradient for name in dense.names})

Arrays are JAX's and never change in place: what a pull returned stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import TrainingError
from ..operators.base import Context, DenseSpec, Operator, Rows, TableSpec
from ..operators.from_optax import state_names
from .compiled.program import probe, used
from .messages import NO_DENSE, NO_UPDATES, Array, Arrays, Stored
from .placement import dealt

if TYPE_CHECKING:
    import optax

STATE = "state"
FAILED = "failed"
UPDATES, LAST_SEEN = "updates", "last_seen"
MOST = 2**32 - 1


class Lived(NamedTuple):
    """What an operator knows about a parameter at an update: its age and staleness.

    Attributes:
        updates: how many updates it has had, uint32[].
        staleness: how many of these updates came after it was pulled, uint32[].
        age_seconds: TIME since the last of them, float32[].
        pulled: its values as they were pulled.
    """

    updates: Any
    staleness: Any
    age_seconds: Any
    pulled: Any


class DenseProgram:
    """The dense parameters of a recipe and their optimizer, jitted. Shards share it.

    Args:
        specs: names differ.
        optimizer: for the parameters that name no optimizer of their own; keeps a state for each array and sees it alone. None
            where every parameter names one.
        seed: of the arrays' first values.
        operators: the operators of a statement that act on each parameter, in order; none act on a parameter with an optimizer
            of its own.

    Attributes:
        seed: as given.
        columns: parameter -> what is kept of it: the names of its optimizer's arrays, then "w".
        operated: the parameters that operators act on.
        needs: what of Lived the operators use, by name.
    """

    def __init__(
        self,
        specs: Sequence[DenseSpec],
        optimizer: optax.GradientTransformation | None,
        seed: int,
        operators: Callable[[TableSpec], Sequence[Operator]] = lambda spec: (),
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self._optimizers = {spec.name: spec.optimizer() if spec.optimizer else optimizer for spec in specs}
        self.columns = {name: (*state_names(self._optimizer(name), 1, STATE), "w") for name in self.specs}
        self._operators = {spec.name: () if spec.optimizer else tuple(operators(as_table(spec))) for spec in specs}
        self.operated = tuple(name for name, used in self._operators.items() if used)
        self.seed = seed
        self.needs = self._needs(self.operated[0]) if self.operated else frozenset()
        self.update = jax.jit(self._update)

    @property
    def pulled(self) -> tuple[str, ...]:
        """The parameters whose values, as pulled, a push must bring."""
        return self.operated if "pulled" in self.needs else ()

    @property
    def dated(self) -> tuple[str, ...]:
        """The parameters whose updates, as pulled, a push must bring."""
        return self.operated if "staleness" in self.needs else ()

    def _needs(self, name: str) -> frozenset[str]:
        values, state = jax.eval_shape(lambda: self.initial(name))
        number, age = probe("uint32", None), probe("float32", None)
        lived = Lived(number, number, age, values)._asdict()

        def update(lived: Mapping[str, Any]) -> Any:
            w, held = jnp.zeros_like(values), jax.tree.map(jnp.zeros_like, state)
            return operated(self._operators[name], self._optimizer(name).update, w, held, w, Lived(**lived))

        return used(update, lived)

    def part(self, number: int, num_shards: int) -> ShardDense:
        """Return the new parameters of one shard."""
        return ShardDense(self, dealt({spec.name: size(spec) for spec in self.specs.values()}, num_shards)[number])

    def initial(self, name: str) -> tuple[jax.Array, Any]:
        """Return a parameter's first values and its optimizer's first state."""
        spec = self.specs[name]
        values = jnp.zeros(spec.shape, jnp.float32) if spec.init is None else spec.init(self.seed)
        return values, self._optimizer(name).init(values)

    def _optimizer(self, name: str) -> optax.GradientTransformation:
        optimizer = self._optimizers[name]
        assert optimizer is not None
        return optimizer

    def _update(
        self, values: dict[str, jax.Array], states: dict[str, Any], gradients: dict[str, Array], lived: dict[str, Lived]
    ) -> tuple[dict[str, jax.Array], dict[str, Any], dict[str, dict[str, jax.Array]]]:
        moved, kept, reports = {}, {}, {}
        for name, old in values.items():
            update = self._optimizer(name).update
            if operators := self._operators[name]:
                moved[name], kept[name], reports[name] = operated(
                    operators, update, old, states[name], gradients[name], lived[name]
                )
            else:
                step, kept[name] = update(gradients[name], states[name], old)
                moved[name] = old + jnp.asarray(step)
        return moved, kept, reports


def as_table(spec: DenseSpec) -> TableSpec:
    """Return the table of a parameter's lines: of the last axis, or of its one number."""
    return TableSpec(spec.name, spec.shape[-1] if spec.shape else 1, dense=True)


def operated(
    operators: Sequence[Operator],
    update: Callable[..., tuple[Any, Any]],
    values: jax.Array,
    state: Any,
    gradient: Array,
    lived: Lived,
) -> tuple[jax.Array, Any, dict[str, jax.Array]]:
    """Apply one update of a parameter whose lines are rows of operators, as are those of its state's arrays of that shape.

    Returns:
        The values, the state, and the sums of the transient columns.
    """
    shape = values.shape
    lines = (-1, shape[-1] if shape else 1)
    leaves, structure = jax.tree.flatten(state)
    columns = {f"{STATE}_{i}": i for i, leaf in enumerate(leaves) if leaf.shape == shape and leaf.dtype == values.dtype}
    w = values.reshape(lines)
    counters = {name: c for one in operators for name, c in one.columns.items() if c.transient}
    zeros, most = jnp.zeros(len(w), jnp.uint32), jnp.full(len(w), MOST, jnp.uint32)
    updates = jnp.full(len(w), lived.updates, jnp.uint32)
    statistics = {"count": most, "updates": updates, "shows": zeros, "clicks": zeros, "last_seen": zeros}
    transient = {name: jnp.zeros((len(w), column.dim)) for name, column in counters.items()}
    old: Rows = {"w": w, **statistics, **transient, **{name: leaves[i].reshape(lines) for name, i in columns.items()}}
    context, gradients = lines_context(w, lived), jnp.asarray(gradient).reshape(lines)
    for operator in operators:
        old = operator.read(old, context)
    rows = old
    for operator in operators:
        gradients, rows = operator.before(gradients, rows, context)
    step, moved = update(gradients.reshape(shape), state, rows["w"].reshape(shape))
    leaves = jax.tree.leaves(moved)
    rows = {**rows, "w": rows["w"] + jnp.asarray(step).reshape(lines)}
    rows = {**rows, **{name: leaves[i].reshape(lines) for name, i in columns.items()}}
    for operator in reversed(operators):
        rows = operator.after(old, rows, context)
    for name, i in columns.items():
        leaves[i] = rows[name].reshape(shape)
    return rows["w"].reshape(shape), jax.tree.unflatten(structure, leaves), {name: rows[name].sum() for name in counters}


def lines_context(w: jax.Array, lived: Lived) -> Context:
    """Return what operators know of the lines of a parameter, which are in every push."""
    n = len(w)
    none, one = jnp.zeros(n, jnp.uint32), jnp.ones(n, jnp.uint32)
    false, age = jnp.zeros(n, jnp.bool_), jnp.full(n, lived.age_seconds, jnp.float32)
    return Context(
        valid=~false,
        keys=jnp.zeros((n, 2), jnp.uint32),
        count=one,
        shows=one,
        clicks=none,
        updates=jnp.full(n, lived.updates, jnp.uint32),
        staleness=jnp.full(n, lived.staleness, jnp.uint32),
        pulled=jnp.asarray(lived.pulled).reshape(w.shape),
        age_seconds=age,
        idle_seconds=age,
        new=false,
        slot=none,
        draw=jnp.zeros(4, jnp.uint32),
        base_rate=jnp.zeros((), jnp.float32),
    )


def size(spec: DenseSpec) -> int:
    """Return how many floats a parameter has."""
    return int(np.prod(spec.shape))


class ShardDense:
    """The dense parameters of one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        program: the optimizer, jitted.
        names: of the parameters that it holds.

    Attributes:
        names: as given.
        pulled, dated: the parameters whose values, or whose update counts, as pulled, a push must bring.
    """

    def __init__(self, program: DenseProgram, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.pulled, self.dated = ([n for n in names if n in asked] for asked in (program.pulled, program.dated))
        self._program = program
        started = {name: program.initial(name) for name in names}
        self._values = {name: values for name, (values, _) in started.items()}
        self._states = {name: state for name, (_, state) in started.items()}
        self._updates, self._last_seen = dict.fromkeys(names, 0), dict.fromkeys(names, 0)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' shapes."""
        return {name: tuple(values.shape) for name, values in self._values.items()}

    def pull(self) -> dict[str, Array]:
        """Return the parameters."""
        return dict(self._values)

    def updates(self) -> dict[str, int]:
        """Return the updates that parameters have had, where operators ask how many came since a pull."""
        return {name: self._updates[name] for name in self.dated}

    def push(
        self, gradients: Arrays, now: int = 0, seen: Mapping[str, int] = NO_UPDATES, pulled: Arrays = NO_DENSE
    ) -> Mapping[str, float]:
        """Apply one update.

        Args:
            gradients: in the parameters' shapes; parameters without one stay as they are, gradients of others are ignored.
            now: the newest TIME pushed, seconds; 0 without TIME.
            seen: the parameters' updates as they were pulled.
            pulled: the parameters as they were pulled, those that `DenseProgram.pulled` names.

        Returns:
            What operators counted, such as lines that were refused.

        Raises:
            TrainingError: an operator refuses the update for good; nothing is applied.
        """
        report: dict[str, float] = {}
        own = {name: gradients[name] for name in self.names if name in gradients}
        if own:
            values, states = ({name: held[name] for name in own} for held in (self._values, self._states))
            lived = {name: self._lived(name, now, seen, pulled) for name in own if name in self._program.operated}
            values, states, reports = self._program.update(values, states, own, lived)
            for name, found in reports.items():
                for counted, sums in found.items():
                    report[counted] = report.get(counted, 0.0) + float(sums)
                if report.pop(FAILED, 0.0):
                    raise TrainingError(
                        f"The update of the dense parameter {name} is beyond the limits of safety, which is set to fail. Lower "
                        "the learning rate, or set on_violation to 'clip' or 'skip'."
                    )
            self._values, self._states = {**self._values, **values}, {**self._states, **states}
            for name in own:
                self._updates[name], self._last_seen[name] = min(self._updates[name] + 1, MOST), now
        return report

    def _lived(self, name: str, now: int, seen: Mapping[str, int], pulled: Arrays) -> Lived:
        """Return what operators know of a parameter's life, as far as they ask."""
        updates, last = self._updates[name], self._last_seen[name]
        return Lived(
            np.uint32(updates),
            np.uint32(max(updates - seen[name], 0) if name in self.dated else 0),
            np.float32(max(now - last, 0) if last else 0),
            pulled[name] if name in self.pulled else self._values[name],
        )

    def load(self, stored: Mapping[tuple[str, str], NDArray[Any]], now: int = 0) -> None:
        """Go on from an earlier version's arrays, by name and column; those of other shards are ignored.

        A state that the version lacks starts as new.

        Args:
            now: the newest TIME pushed before, from which ages count where no later one is known.
        """
        for name in self.names:
            self._updates[name] = int(stored.get((name, UPDATES), np.uint32(0)))
            self._last_seen[name] = int(stored.get((name, LAST_SEEN), np.uint32(now)))
            self._values[name] = jnp.asarray(stored[name, "w"])
            leaves, structure = jax.tree.flatten(self._states[name])
            columns = self._program.columns[name][:-1]
            kept = [
                jnp.asarray(stored[name, column], leaf.dtype) if (name, column) in stored else leaf
                for column, leaf in zip(columns, leaves, strict=True)
            ]
            self._states[name] = jax.tree.unflatten(structure, kept)

    def dump(self) -> Iterator[Stored]:
        """Iterate over the arrays that a version keeps, float32."""
        arrays = (array for array in self.arrays() if array.column != LAST_SEEN)  # all are brought up to one TIME
        return (array._replace(values=np.asarray(array.values, np.float32)) for array in arrays)

    def arrays(self) -> Iterator[Stored]:
        """Iterate over the arrays as they are."""
        for name in self.names:
            leaves = [*jax.tree.leaves(self._states[name]), self._values[name]]
            for column, leaf in zip(self._program.columns[name], leaves, strict=True):
                yield Stored(name, column, np.asarray(leaf))
        for name in set(self.names) & set(self._program.operated):
            if UPDATES in self._program.needs:
                yield Stored(name, UPDATES, np.array(self._updates[name], np.uint32))
            if "age_seconds" in self._program.needs:
                yield Stored(name, LAST_SEEN, np.array(self._last_seen[name], np.uint32))

"""Dense parameters: named arrays, the large ones in pieces, dealt over shards, each with the state of an optax optimizer.

    program = DenseProgram(specs, optax.adam(1e-3), seed)        # of a recipe; shards share it
    dense = program.part(number=0, num_shards=2)                 # of a shard
    dense.push({name: gradient for name in dense.names})         # of pieces

Arrays are JAX's and never change in place: what a pull returned stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..errors import TrainingError
from ..operators.base import DenseSpec, Operator, TableSpec
from ..operators.from_optax import check_per_row, state_names
from .compiled.program import probe, used
from .dense_lines import MOST, STATE, Lived, as_table, operated
from .messages import NO_DENSE, NO_UPDATES, Array, Arrays, Stored, StoredPiece
from .pieces import DensePiece, pieces_of
from .placement import dealt

if TYPE_CHECKING:
    import optax

A = TypeVar("A")
FAILED = "failed"
UPDATES, LAST_SEEN = "updates", "last_seen"


class DenseProgram:
    """The dense parameters of a recipe and their optimizer, jitted. Shards share it.

    Args:
        specs: names differ.
        optimizer: for the parameters that name no optimizer of their own; keeps a state for each array and sees it alone. None
            where every parameter names one.
        seed: of the arrays' first values.
        operators: the operators of a statement that act on each parameter, in order; none act on a parameter with an optimizer
            of its own.
        paced: steps are multiplied by a rate, but of parameters with an optimizer of their own.

    Attributes:
        seed: as given.
        columns: parameter -> what is kept of it: the names of its optimizer's arrays, then "w".
        pieces: by name, the pieces of cut parameters, and uncut parameters.
        cut: the pieces of cut parameters, in order.
        operated: the pieces that operators act on.
        needs: what of Lived the operators use, by name.
    """

    def __init__(
        self,
        specs: Sequence[DenseSpec],
        optimizer: optax.GradientTransformation | None,
        seed: int,
        operators: Callable[[TableSpec], Sequence[Operator]] = lambda spec: (),
        paced: bool = False,
    ) -> None:
        self._paced = paced
        self.specs = {spec.name: spec for spec in specs}
        self._optimizers = {spec.name: spec.optimizer() if spec.optimizer else optimizer for spec in specs}
        self.columns = {name: (*state_names(self._optimizer(name), 1, STATE), "w") for name in self.specs}
        self._operators = {spec.name: () if spec.optimizer else tuple(operators(as_table(spec))) for spec in specs}
        pieces = [piece for spec in specs for piece in self._pieces(spec)]
        self.pieces = {piece.name: piece for piece in pieces}
        self.cut = tuple(piece for piece in pieces if not piece.whole)
        self.operated = tuple(piece.name for piece in pieces if self._operators[piece.of])
        self.seed = seed
        self.needs = self._needs(self.pieces[self.operated[0]]) if self.operated else frozenset()
        self.update = jax.jit(self._update)

    @property
    def pulled(self) -> tuple[str, ...]:
        """The pieces whose values, as pulled, a push must bring."""
        return self.operated if "pulled" in self.needs else ()

    @property
    def dated(self) -> tuple[str, ...]:
        """The pieces whose updates, as pulled, a push must bring."""
        return self.operated if "staleness" in self.needs else ()

    def _pieces(self, spec: DenseSpec) -> tuple[DensePiece, ...]:
        """Cut a parameter, where its optimizer takes each line by itself."""
        pieces = pieces_of(spec.name, spec.shape)
        if len(pieces) > 1:
            try:
                check_per_row(self._optimizer(spec.name), spec.name)
            except ValueError:
                return (DensePiece(spec.name, spec.name),)
        return pieces

    def _needs(self, piece: DensePiece) -> frozenset[str]:
        name = piece.of
        values, state = jax.eval_shape(lambda: self.initial(piece))
        number, age = probe("uint32", None), probe("float32", None)
        lived = Lived(number, number, age, values)._asdict()

        def update(lived: Mapping[str, Any]) -> Any:
            w, held = jnp.zeros_like(values), jax.tree.map(jnp.zeros_like, state)
            return operated(self._operators[name], self._optimizer(name).update, w, held, w, Lived(**lived))

        return used(update, lived)

    def part(self, number: int, num_shards: int, device: jax.Device | None = None) -> ShardDense:
        """Return the new parameters of one shard; `device`: see ShardDense."""
        return ShardDense(self, self.dealt(num_shards)[number], device)

    def dealt(self, num_shards: int) -> list[tuple[str, ...]]:
        """Return the names of the pieces of each shard."""
        sizes = {name: math.prod(piece.shape(self.specs[piece.of].shape)) for name, piece in self.pieces.items()}
        return dealt(sizes, num_shards)

    def initial(self, piece: DensePiece) -> tuple[jax.Array, Any]:
        """Return a piece's first values and its optimizer's first state."""
        spec = self.specs[piece.of]
        values = piece.part(jnp.zeros(spec.shape, jnp.float32) if spec.init is None else spec.init(self.seed))
        return values, self._optimizer(piece.of).init(values)

    def _optimizer(self, name: str) -> optax.GradientTransformation:
        optimizer = self._optimizers[name]
        assert optimizer is not None
        return optimizer

    def _update(
        self,
        values: dict[str, jax.Array],
        states: dict[str, Any],
        gradients: dict[str, Array],
        lived: dict[str, Lived],
        rate: jax.Array,
    ) -> tuple[dict[str, jax.Array], dict[str, Any], dict[str, dict[str, jax.Array]]]:
        moved, kept, reports = {}, {}, {}
        for name, old in values.items():
            of = self.pieces[name].of
            update = self._at(rate, of) if self._paced and self.specs[of].optimizer is None else self._optimizer(of).update
            if operators := self._operators[of]:
                moved[name], kept[name], reports[name] = operated(
                    operators, update, old, states[name], gradients[name], lived[name]
                )
            else:
                step, kept[name] = update(gradients[name], states[name], old)
                moved[name] = old + jnp.asarray(step)
        return moved, kept, reports

    def _at(self, rate: jax.Array, name: str) -> Callable[..., tuple[Any, Any]]:
        """Return the update of a parameter, with steps multiplied by a rate."""

        def update(gradient: Any, state: Any, values: Any) -> tuple[Any, Any]:
            step, kept = self._optimizer(name).update(gradient, state, values)
            return rate * jnp.asarray(step), kept

        return update


def size(spec: DenseSpec) -> int:
    """Return how many floats a parameter has."""
    return int(np.prod(spec.shape))


class ShardDense:
    """The dense parameters of one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        program: the optimizer, jitted.
        names: of the pieces that it holds.
        device: where they are; None: where JAX puts what names no device.

    Attributes:
        names: as given.
        version: another one after each change.
        rate: what steps are multiplied by, where the program is paced; its shard sets it.
        pulled, dated: of those, the pieces whose values, or whose update counts, as pulled, a push must bring.
    """

    def __init__(self, program: DenseProgram, names: Sequence[str], device: jax.Device | None = None) -> None:
        self._device = device
        self.names = tuple(names)
        self.pulled, self.dated = ([n for n in names if n in asked] for asked in (program.pulled, program.dated))
        self._program = program
        self._pieces = {name: program.pieces[name] for name in names}
        self.version, self.rate = 1, 1.0
        started = {name: program.initial(piece) for name, piece in self._pieces.items()}
        self._values = {name: self._placed(values) for name, (values, _) in started.items()}
        self._states = {name: self._placed(state) for name, (_, state) in started.items()}
        self._updates, self._last_seen = dict.fromkeys(names, 0), dict.fromkeys(names, 0)

    def _placed(self, arrays: A) -> A:
        """Return a tree of arrays on the device."""
        return arrays if self._device is None else jax.device_put(arrays, self._device)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its pieces."""
        return {name: tuple(values.shape) for name, values in self._values.items()}

    def pull(self) -> dict[str, Array]:
        """Return its pieces."""
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
            values, states, reports = self._program.update(values, states, own, lived, np.float32(self.rate))
            for name, found in reports.items():
                for counted, sums in found.items():
                    report[counted] = report.get(counted, 0.0) + float(sums)
                if report.pop(FAILED, 0.0):
                    raise TrainingError(
                        f"The update of the dense parameter {self._pieces[name].of} is beyond the limits of safety, which is "
                        "set to fail. Lower the learning rate, or set on_violation to 'clip' or 'skip'."
                    )
            self._values, self._states = {**self._values, **values}, {**self._states, **states}
            self.version += 1
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

    def restart(self, now: int) -> None:
        """Count ages from a TIME on."""
        self._last_seen = dict.fromkeys(self.names, now)

    def load(self, stored: Mapping[tuple[str, str], NDArray[Any]], now: int = 0) -> None:
        """Go on from arrays of an earlier version, whole, or of a checkpoint, in pieces, by name and column; those of other
        shards are ignored.

        A state that the version lacks starts as new.

        Args:
            now: the newest TIME pushed before, from which ages count where no later one is known.
        """
        self.version += 1
        for name, piece in self._pieces.items():

            def kept(column: str, shape: tuple[int, ...], default: Any, name: str = name, piece: DensePiece = piece) -> Any:
                found = stored.get((name, column))
                if found is None and (found := stored.get((piece.of, column))) is not None and found.shape != shape:
                    found = piece.part(found)
                return default if found is None else found

            self._updates[name] = int(kept(UPDATES, (), np.uint32(0)))
            self._last_seen[name] = int(kept(LAST_SEEN, (), np.uint32(now)))
            self._values[name] = self._placed(jnp.asarray(kept("w", self._values[name].shape, None)))
            leaves, structure = jax.tree.flatten(self._states[name])
            columns = self._program.columns[piece.of][:-1]
            found = [jnp.asarray(kept(c, leaf.shape, leaf), leaf.dtype) for c, leaf in zip(columns, leaves, strict=True)]
            self._states[name] = self._placed(jax.tree.unflatten(structure, found))

    def dump(self) -> Iterator[StoredPiece]:
        """Iterate over the arrays that a version keeps, float32."""
        for name, column, values in self.arrays():
            if column != LAST_SEEN:  # all are brought up to one TIME
                piece = self._pieces[name]
                yield StoredPiece(piece.of, column, np.asarray(values, np.float32), piece.first)

    def arrays(self) -> Iterator[Stored]:
        """Iterate over the arrays of its pieces as they are."""
        for name, piece in self._pieces.items():
            leaves = [*jax.tree.leaves(self._states[name]), self._values[name]]
            for column, leaf in zip(self._program.columns[piece.of], leaves, strict=True):
                yield Stored(name, column, np.asarray(leaf))
        for name in set(self.names) & set(self._program.operated):
            if UPDATES in self._program.needs:
                yield Stored(name, UPDATES, np.array(self._updates[name], np.uint32))
            if "age_seconds" in self._program.needs:
                yield Stored(name, LAST_SEEN, np.array(self._last_seen[name], np.uint32))

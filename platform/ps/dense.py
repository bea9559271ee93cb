"""Dense parameters: whole named arrays dealt over shards, each with the state of an optax optimizer.

    program = DenseProgram(specs, optax.adam(1e-3), seed)        # of a recipe; shards share it
    dense = program.part(number=0, num_shards=2)                 # of a shard
    dense.push({name: gradient for name in dense.names})

Arrays are JAX's and never change in place: what a pull returned stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..operators.base import DenseSpec
from ..operators.from_optax import state_names
from .messages import Array, Arrays, Stored
from .placement import dealt

if TYPE_CHECKING:
    import optax

STATE = "state"


class DenseProgram:
    """The dense parameters of a recipe and their optimizer, jitted. Shards share it.

    Args:
        specs: names differ.
        optimizer: of those that name none; keeps a state for each array and sees it alone. None where there are none of them.
        seed: of the arrays' first values.

    Attributes:
        seed: as given.
        columns: parameter -> what is kept of it: the names of its optimizer's arrays, then "w".
    """

    def __init__(self, specs: Sequence[DenseSpec], optimizer: optax.GradientTransformation | None, seed: int) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self._optimizers = {spec.name: spec.optimizer() if spec.optimizer else optimizer for spec in specs}
        self.columns = {name: (*state_names(self._optimizer(name), 1, STATE), "w") for name in self.specs}
        self.seed = seed
        self.update = jax.jit(self._update)

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
        self, values: dict[str, jax.Array], states: dict[str, Any], gradients: dict[str, Array]
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        moved, kept = {}, {}
        for name, old in values.items():
            step, kept[name] = self._optimizer(name).update(gradients[name], states[name], old)
            moved[name] = old + jnp.asarray(step)
        return moved, kept


def size(spec: DenseSpec) -> int:
    """Return how many floats a parameter has."""
    return int(np.prod(spec.shape))


class ShardDense:
    """The dense parameters of one shard. Not thread-safe: its shard applies one request at a time.

    Args:
        program: the optimizer, jitted.
        names: of the parameters that it holds.
    """

    def __init__(self, program: DenseProgram, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._program = program
        started = {name: program.initial(name) for name in names}
        self._values = {name: values for name, (values, _) in started.items()}
        self._states = {name: state for name, (_, state) in started.items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters' shapes."""
        return {name: tuple(values.shape) for name, values in self._values.items()}

    def pull(self) -> dict[str, Array]:
        """Return the parameters."""
        return dict(self._values)

    def push(self, gradients: Arrays) -> None:
        """Apply one update.

        Args:
            gradients: in the parameters' shapes; parameters without one stay as they are, gradients of others are ignored.
        """
        own = {name: gradients[name] for name in self.names if name in gradients}
        if own:
            values, states = ({name: held[name] for name in own} for held in (self._values, self._states))
            values, states = self._program.update(values, states, own)
            self._values, self._states = {**self._values, **values}, {**self._states, **states}

    def load(self, stored: Mapping[tuple[str, str], NDArray[Any]]) -> None:
        """Go on from an earlier version's arrays, by name and column; those of other shards are ignored.

        A state that the version lacks starts as new.
        """
        for name in self.names:
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
        return (array._replace(values=np.asarray(array.values, np.float32)) for array in self.arrays())

    def arrays(self) -> Iterator[Stored]:
        """Iterate over the arrays as they are."""
        for name in self.names:
            leaves = [*jax.tree.leaves(self._states[name]), self._values[name]]
            for column, leaf in zip(self._program.columns[name], leaves, strict=True):
                yield Stored(name, column, np.asarray(leaf))

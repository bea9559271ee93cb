"""The inputs of a user's network: their names when it is made, and their values when it is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...platform.errors import suggestion
from ..blocks.histories import HISTORIES
from ..inputs import Inputs, Layout
from ..layers.lookups import gathered, of_examples
from ..layers.packed import places_of
from ..layers.pooling import bag_vectors
from ..linear.scores import wide_scores
from ..shared_inputs import CommonLines

DRY_BATCH, DRY_LENGTH = 3, 8


class Features(NamedTuple):
    """The inputs of a network by name.

    Attributes:
        slots: that have a vector: categorical ones, then multi-valued and weighted ones.
        dense: continuous slots and dense vectors, with the floats of each.
        histories: the arrays that the option `history` names, or their fields.
        target: the slots that the option `target` names.
        labels: the columns to predict.
        dim: elements of a vector.
    """

    slots: tuple[str, ...]
    dense: tuple[tuple[str, int], ...]
    histories: tuple[str, ...]
    target: tuple[str, ...]
    labels: tuple[str, ...]
    dim: int

    @property
    def num_dense(self) -> int:
        """Floats of all dense inputs."""
        return sum(width for _, width in self.dense)

    @property
    def width(self) -> int:
        """Floats of `FeatureValues.flat`: all vectors of slots, and all dense inputs."""
        return len(self.slots) * self.dim + self.num_dense


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class BatchRows:
    """The inputs of a batch before the vectors of its slots are looked up.

    Attributes:
        rows: float32[n, dim].
        index: int32[lines, batch]; the row of each categorical slot of an example.
        pooled: float32[batch, bags, dim]; the vectors of multi-valued and weighted slots.
        dense, wide, history, features: as in FeatureValues.
    """

    rows: jax.Array
    index: jax.Array | CommonLines
    pooled: jax.Array
    dense: jax.Array
    wide: jax.Array
    history: Mapping[str, tuple[jax.Array, jax.Array]]
    features: Features = dataclasses.field(metadata={"static": True})

    def looked_up(self) -> FeatureValues:
        """Return the inputs with the vectors of slots."""
        slots = self.pooled
        if len(self.index):
            own = gathered(self.rows, self.index)
            slots = jnp.concatenate([own, slots], axis=1) if slots.shape[1] else own
        return FeatureValues(slots, self.dense, self.wide, self.history, self.features)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FeatureValues:
    """The inputs of a batch; of a network that sees one example alone, without the first dimension.

    Attributes:
        slots: float32[batch, slots, dim]; zeros where a slot is absent.
        dense: float32[batch, num_dense]; standardised, 0 where absent.
        wide: float32[batch, labels]; the linear part of the score, with the intercept: add it, or leave it.
        history: by name, float32[batch, L, dim] and bool[batch, L], whether an element is there; the newest stands last.
        features: their names.
    """

    slots: jax.Array
    dense: jax.Array
    wide: jax.Array
    history: Mapping[str, tuple[jax.Array, jax.Array]]
    features: Features = dataclasses.field(metadata={"static": True})

    def __getitem__(self, name: str) -> jax.Array:
        """Return a slot's vector, float32[batch, dim], or a dense input, float32[batch, floats]."""
        if name in self.features.slots:
            return self.slots[..., self.features.slots.index(name), :]
        first = 0
        for own, width in self.features.dense:
            if own == name:
                return self.dense[..., first : first + width]
            first += width
        known = (*self.features.slots, *(own for own, _ in self.features.dense))
        raise KeyError(f"no slot or dense input {name!r}.{suggestion(name, known)}")

    @property
    def flat(self) -> jax.Array:
        """All vectors and dense inputs side by side, float32[batch, width]."""
        vectors = self.slots.reshape(*self.slots.shape[:-2], -1)
        return self.joined([vectors, self.dense])

    @property
    def target(self) -> jax.Array:
        """The vectors of the target's slots side by side, float32[batch, fields * dim]."""
        return self.joined([self[name] for name in self.features.target])

    @property
    def elements(self) -> tuple[jax.Array, jax.Array]:
        """The histories' vectors side by side, float32[batch, L, fields * dim], and bool[batch, L]."""
        of_names = [self.history[name] for name in self.features.histories]
        return self.joined([vectors for vectors, _ in of_names]), of_names[0][1]

    @staticmethod
    def joined(parts: Sequence[jax.Array]) -> jax.Array:
        """Return arrays side by side."""
        return jnp.concatenate(parts, axis=-1)


def features_of(layout: Layout, target: tuple[str, ...], dim: int) -> Features:
    """Return the names of a model's inputs."""
    return Features(
        slots=(*layout.scalar, *layout.bags),
        dense=(*((name, 1) for name in layout.continuous), *layout.vectors),
        histories=tuple(name for _, slots in layout.block(HISTORIES) for name in slots),
        target=target,
        labels=layout.labels,
        dim=dim,
    )


def rows_of(parameters: Mapping[str, jax.Array], inputs: Inputs, layout: Layout, features: Features) -> BatchRows:
    """Return the inputs of a batch."""
    rows, batch = parameters["vectors"], inputs.batch
    history = {
        name: (of_examples(gathered(rows, found.rows[place].T), found.owner), places_of(found.mask, found.owner))
        for (_, slots), found in zip(layout.block(HISTORIES), inputs.block(HISTORIES), strict=True)
        for place, name in enumerate(slots)
    }
    wide, index = wide_scores(parameters["weights"], inputs, layout), inputs.scalar[: len(layout.scalar)]
    pooled = bag_vectors(rows, inputs, layout, "sum") if layout.bags else jnp.zeros((batch, 0, features.dim), jnp.float32)
    return BatchRows(rows, index, pooled, inputs.dense, wide, history, features)


def shapes_of(features: Features, batch: int = DRY_BATCH, length: int = DRY_LENGTH) -> BatchRows:
    """Return the shapes of a batch's inputs, for a dry run: each example has a row of its own in each slot."""

    def floats(*shape: int) -> Any:
        return shaped(shape, jnp.float32)

    mask = shaped((batch, length), jnp.bool_)
    return BatchRows(
        floats(len(features.slots) * batch, features.dim),
        shaped((len(features.slots), batch), jnp.int32),
        floats(batch, 0, features.dim),
        floats(batch, features.num_dense),
        floats(batch, len(features.labels)),
        {name: (floats(batch, length, features.dim), mask) for name in features.histories},
        features,
    )


def shaped(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array's shape and type as JAX takes them for a dry run."""
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]

"""Large dense parameters cut into pieces, which are dealt over shards as if each were a parameter.

A piece is a run of lines of the first axis: `hidden_1.kernel#3`. Where parameters are cut depends on their shapes alone, so a
checkpoint, or a version, fits any number of shards. A worker's compiled step makes whole parameters of pieces, and cuts
gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

LEAST_FLOATS = 1 << 15
"""Of a piece: 128 kB, whose arithmetic is long beside what is done once for each."""
MOST_PIECES = 64


class DensePiece(NamedTuple):
    """A run of a parameter's lines, or all of it.

    Attributes:
        name: of a piece, `<parameter>#<number>`; of a whole parameter its own.
        of: the parameter.
        first, stop: its lines, [first, stop); 0 and 0 where it is whole.
    """

    name: str
    of: str
    first: int = 0
    stop: int = 0

    @property
    def whole(self) -> bool:
        return self.stop == 0

    def part(self, values: Any) -> Any:
        """Return what it has of a parameter."""
        return values if self.whole else values[self.first : self.stop]

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """Return its shape, of its parameter's."""
        return whole if self.whole else (self.stop - self.first, *whole[1:])


def pieces_of(name: str, shape: Sequence[int]) -> tuple[DensePiece, ...]:
    """Cut a parameter: one of few floats, or with one axis, stays whole."""
    floats = 1
    for length in shape:
        floats *= length
    count = min(MOST_PIECES, floats // LEAST_FLOATS, shape[0]) if len(shape) > 1 else 1
    if count < 2:
        return (DensePiece(name, name),)
    bounds = [shape[0] * i // count for i in range(count + 1)]
    return tuple(DensePiece(f"{name}#{i}", name, *bounds[i : i + 2]) for i in range(count))


def joined(pieces: Sequence[DensePiece], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those that are cut made whole.

    Args:
        pieces: of the parameters that are cut, in order.
    """
    whole = dict(parameters)
    parts: dict[str, list[Any]] = {}
    for piece in pieces:
        parts.setdefault(piece.of, []).append(whole.pop(piece.name))
    return whole | {name: jnp.concatenate(own) for name, own in parts.items()}


def cut(pieces: Sequence[DensePiece], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `joined` was given."""
    names = {piece.of for piece in pieces}
    rest = {name: values for name, values in parameters.items() if name not in names}
    return rest | {piece.name: piece.part(parameters[piece.of]) for piece in pieces}

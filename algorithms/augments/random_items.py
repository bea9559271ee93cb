"""Mixed negative sampling: random items, with their features, as negatives for each batch, beside the batch's own items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..augment import Augment, Draw, Prepare
from ..chunk import ABSENT, Added, Bag, Chunk
from ..inputs import Layout
from .negatives import dense_names

POOL = 4096
"""Items, at least, that the batches of a chunk draw from."""
WHOLE, NEVER_DRAWN = 256, 1e30
"""A batch that has all items has a multiple of so many, and the last of them are expected so often."""


class Catalogue(NamedTuple):
    """All items, each once, encoded.

    Attributes:
        chunk: a row for each item, of slots of the item alone.
        layout: of these slots.
    """

    chunk: Chunk
    layout: Layout


@dataclass(frozen=True)
class RandomItems(Augment):
    """How an algorithm has items drawn at random for each batch, each item as probably as another, with replacement.

    Attributes:
        number: drawn for each batch.
        item: the slots of the item; the first one, which is categorical, is the item's id.
        catalogue: the items to draw from; None: the items of the piece of the input that the batch is cut from (about 131,072
            rows).
        all_of_few: where there are no more than `number`, each is there once in every batch.
    """

    number: int
    item: tuple[str, ...]
    catalogue: Catalogue | None = None
    all_of_few: bool = False

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        source, names = (chunk, layout) if self.catalogue is None else self.catalogue
        every = one_row_each(source, names, self.item[0])
        seed = draw.seed, draw.pass_number, draw.batch, int(np.bitwise_xor.reduce(chunk.keys)), len(chunk.weight)
        random = np.random.default_rng(seed)
        pool = random.permutation(every)[: max(POOL, 8 * self.number)]
        rows = DrawnRows.of(source, names, layout, chunk.scalar.shape[0], self.item, pool)
        further, codes = chunk.with_features(source.keys[rows.features], source.slots[rows.features])
        whole = self.all_of_few and len(every) <= self.number
        drawn = ItemDraw(rows.coded(codes), len(every), self.number, seed, whole)
        own: dict[str, Any] = {"keys": further.keys, "slots": further.slots, "sides": further.sides, "added": drawn.of_batch}
        return lambda piece, start, stop: piece._replace(**own) if len(pool) else piece


class ItemDraw(NamedTuple):
    """Draws the items of batches: a function of the seed, the pass, what the chunk holds, and the batch's number.

    Attributes:
        rows: the items that are drawn from.
        items: of how many these were drawn.
        whole: all of them, then copies of the first one that are expected so often that they weigh nothing, up to a full size.
    """

    rows: DrawnRows
    items: int
    number: int
    seed: tuple[int, ...]
    whole: bool = False

    def of_batch(self, pass_number: int, batch: int) -> Added:
        """Return the items of a batch."""
        if self.whole:
            spare = -self.items % WHOLE
            expected = np.repeat(np.array([1, NEVER_DRAWN], np.float32), (self.items, spare))
            return self._chosen(np.append(np.arange(self.items), np.zeros(spare, np.int64)), expected)
        random = np.random.default_rng((*self.seed, pass_number, batch))
        chosen = random.integers(0, self.rows.scalar.shape[1], self.number)
        return self._chosen(chosen, np.full(self.number, self.number / self.items, np.float32))

    def _chosen(self, chosen: NDArray[np.int64], expected: NDArray[np.float32]) -> Added:
        bags = tuple(bag.take(chosen) for bag in self.rows.bags)
        return Added(self.rows.scalar[:, chosen], bags, self.rows.dense[:, chosen], expected)


class DrawnRows(NamedTuple):
    """Some items as rows of a model that has only the items' slots.

    Attributes:
        features: the codes of their features, where they were encoded.
        scalar, bags, dense: as Chunk has them, of all slots of the model; codes are places among `features`.
    """

    features: NDArray[np.int64]
    scalar: NDArray[np.int32]
    bags: tuple[Bag, ...]
    dense: NDArray[np.float32]

    @classmethod
    def of(
        cls, chunk: Chunk, own: Layout, layout: Layout, lines: int, item: tuple[str, ...], rows: NDArray[np.int64]
    ) -> DrawnRows:
        """Return rows of a chunk.

        Args:
            own: the slots of the chunk.
            layout: the model's layout, with `lines` lines of categorical slots and the intercept.
            item: the slots to copy.
        """
        scalar = np.full((lines, len(rows)), ABSENT, np.int32)
        for line, name in enumerate(layout.scalar):
            if name in item:
                scalar[line] = chunk.scalar[own.scalar.index(name), rows]
        empty = Bag(np.empty(0, np.int32), np.empty(0, np.float32), np.zeros(len(rows) + 1, np.int64))
        bags = [chunk.bags[own.bags.index(name)].take(rows) if name in item else empty for name in layout.bags]
        theirs = dense_names(own, len(chunk.dense))
        names = [*layout.continuous[layout.offered :], *(name for name, count in layout.vectors for _ in range(count))]
        dense = np.full((len(names), len(rows)), np.nan, np.float32)
        for name in {name for name in names if name in item}:
            dense[[name == other for other in names]] = chunk.dense[[name == other for other in theirs]][:, rows]
        features, inverse = np.unique(np.concatenate([scalar.ravel(), *(bag.codes for bag in bags)]), return_inverse=True)
        absent = int(len(features) > 0 and features[0] == ABSENT)
        places = (inverse - absent).astype(np.int32)  # ABSENT stays -1
        pieces = np.split(places[scalar.size :], np.cumsum([len(bag.codes) for bag in bags])[:-1]) if bags else []
        coded = tuple(bag._replace(codes=piece) for bag, piece in zip(bags, pieces, strict=True))
        return cls(features[absent:].astype(np.int64), places[: scalar.size].reshape(scalar.shape), coded, dense)

    def coded(self, codes: NDArray[np.int32]) -> DrawnRows:
        """Return the rows with other codes of their features."""
        with_absent = np.append(codes, np.int32(ABSENT))
        bags = tuple(bag._replace(codes=codes[bag.codes]) for bag in self.bags)
        return self._replace(scalar=with_absent[self.scalar], bags=bags)


def one_row_each(chunk: Chunk, layout: Layout, item: str) -> NDArray[np.int64]:
    """Return a row of each item of a chunk, the first one."""
    codes = chunk.scalar[layout.scalar.index(item)]
    found, first = np.unique(codes, return_index=True)
    rows: NDArray[np.int64] = first[found != ABSENT]
    return rows

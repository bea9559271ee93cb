"""Searches of long histories: the elements that attention is to see of a history of thousands.

Of the elements before the last `recent` ones, which are seen in any case, `top` are chosen: those of the largest inner products
with the target, or the newest that agree with it in a field. Of equal ones the newer is chosen. Training and scoring choose
natively, what agrees while a batch is cut, by products once its rows are there and before its step, so that a step has
`top + recent` elements; no gradient flows through the choice. An export chooses in JAX, of arrays.

Source: Qi et al., "Search-based User Interest Modeling with Lifelong Sequential Behavior Data", CIKM 2020 (category, product);
Chang et al., "TWIN: TWo-stage Interest Network for Lifelong User Behavior Modeling", KDD 2023 (one metric for both stages).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..blocks.agreeing import AgreeingSpans
from ..blocks.base import ABSENT, Blocks, Codes
from ..blocks.histories import HISTORIES, History
from ..blocks.searched import Places, SearchedHistory, SearchedSpans
from ..chunk import Chunk
from . import _lookups
from .lookups import gathered

Query = Callable[[Mapping[str, Any], Any], Any]
"""(parameters, targets float32[batch, width]) -> what elements are multiplied with, in numpy or JAX."""


def as_they_are(parameters: Mapping[str, Any], targets: Any) -> Any:
    return targets


def mark(local: Codes, begin: Places, end: Places, count: int) -> Codes:
    """Return what `marked` of blocks/searched.py does."""
    found = np.full(count, -1, np.int32)
    _lookups.mark_spans(local, begin, end, found)
    return found


@dataclass(frozen=True)
class HistorySearch:
    """How a history is searched.

    Attributes:
        how: product or category.
        top, recent: elements that are chosen, and last ones.
        by: of `category`, the field that must agree.
        lines: of `Inputs.scalar`, one for each field of the target.
        group: which of HISTORIES; fields: of the group, in the order of the target's.
        query: of `product`.
    """

    how: str
    top: int
    recent: int
    by: int
    lines: tuple[int, ...]
    group: int
    fields: tuple[int, ...]
    query: Query = as_they_are

    @property
    def seen(self) -> int:
        """How many elements a step has."""
        return self.top + self.recent

    @property
    def by_rows(self) -> bool:
        """Whether it chooses by rows that were pulled, so that a batch has more of them than its step."""
        return self.how != "category"

    def of_chunk(self, chunk: Chunk) -> Chunk:
        """Return a chunk whose spans are read natively, and chosen of while batches are cut where that takes no rows."""
        records = list(chunk.block(HISTORIES))
        if not isinstance(spans := records[self.group], SearchedSpans):
            return chunk
        records[self.group] = spans._replace(mark=mark)
        if not self.by_rows:
            records[self.group] = AgreeingSpans(spans, chunk.scalar[self.lines[self.by]], self._agreeing, self.seen, {})
        return chunk.having(HISTORIES, records)

    def _agreeing(self, spans: SearchedSpans, wanted: Codes) -> Places:
        places = np.empty((len(wanted), self.seen), np.int64)
        local, tables = ([own[field] for field in self.fields] for own in (spans.local, spans.codes))
        given = local, tables, spans.begin, spans.end, self.by, np.ascontiguousarray(wanted)
        _lookups.choose_by_value(*given, ABSENT, self.top, self.recent, places)
        return places

    def chosen(self, parameters: Mapping[str, Any], codes: Callable[[int], NDArray[np.int32]], blocks: Blocks) -> Blocks:
        """Return the blocks of a batch in which the spans that are searched are the elements chosen.

        Args:
            parameters: pulled, among them float32[n, dim] `vectors`.
            codes: gives the row of each example in a line.
        """
        records = list(blocks[HISTORIES.name])
        spans = records[self.group]
        if isinstance(spans, SearchedHistory):
            records[self.group] = self._history(spans, parameters, codes)
        return {**blocks, HISTORIES.name: tuple(records)}

    def _history(self, spans: SearchedHistory, parameters: Mapping[str, Any], codes: Callable[[int], Any]) -> History:
        batch = len(spans.begin)
        local, tables = ([own[field] for field in self.fields] for own in (spans.local, spans.tables))
        places = np.empty((batch, self.seen), np.int64)
        rows = [np.full(batch, spans.absent, np.int32) for _ in self.lines]
        for own, line in zip(rows, self.lines, strict=True):
            found = codes(line)
            own[: len(found)] = found
        vectors = np.ascontiguousarray(parameters["vectors"], np.float32)
        targets = np.concatenate([vectors.take(own, axis=0) for own in rows], axis=1)
        query = np.ascontiguousarray(self.query(parameters, targets), np.float32)
        sizes = spans.absent, self.top, self.recent, places
        _lookups.choose_by_product(vectors, local, tables, spans.begin, spans.end, query, *sizes)
        index = np.full((len(spans.local), batch, self.seen), spans.absent, np.int32)
        there = places >= 0
        for field, (codes_of, table) in enumerate(zip(spans.local, spans.tables, strict=True)):
            index[field][there] = table.take(codes_of.take(places[there]))
        mask: Any = there
        rows_found: Any = index
        return History(rows_found, mask)

    def in_jax(
        self, parameters: Mapping[str, Any], vectors: jax.Array, targets: jax.Array, rows: jax.Array, history: History
    ) -> History:
        """Return the elements chosen of a history whose elements are all there; what `chosen` chose stays as it is.

        Args:
            vectors: float32[n, dim]; targets: float32[batch, width]; rows: int32[fields, batch], of targets.
            history: its fields in the order of the target's.
        """
        if isinstance(history.rows.shape[2], int) and history.rows.shape[2] <= self.seen:
            return history
        pad = (0, 0), (0, self.seen)  # an export's may be of any length; its row 0 is zeros
        history = History(jnp.pad(history.rows, ((0, 0), *pad)), jnp.pad(history.mask, pad))
        fields, batch, length = history.rows.shape
        if self.how == "category":
            # One value may have several rows in an export, which are the same; what is absent has zeros.
            wanted = gathered(vectors, rows[self.by][None])
            own = gathered(vectors, history.rows[self.by].reshape(1, batch * length)).reshape(batch, length, -1)
            same = (own == wanted).all(axis=2) & wanted.any(axis=2)
            score = jnp.where(same, 0.0, -jnp.inf)
        else:
            elements = gathered(vectors, history.rows.reshape(fields, batch * length)).reshape(batch, length, -1)
            score = jnp.einsum("bld,bd->bl", elements, self.query(parameters, targets))
        newer = jnp.cumsum(history.mask[:, ::-1], axis=1)[:, ::-1]
        score = jnp.where(newer <= self.recent, jnp.inf, score)
        score = jax.lax.stop_gradient(jnp.where(history.mask, score, -jnp.inf))
        best, place = jax.lax.top_k(score[:, ::-1], self.seen)  # of equal ones the first: the newest
        place = jnp.where(best > -jnp.inf, length - 1 - place, length)
        order = jnp.sort(place, axis=1)
        there = order < length
        at = jnp.where(there, order, jnp.argmin(history.mask, axis=1)[:, None])  # else a place without an element
        return History(jnp.stack([jnp.take_along_axis(rows_of, at, axis=1) for rows_of in history.rows]), there)

"""Scoring by the algorithm of a version: a jitted program over its rows, or another package."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.base import Algorithm, Inputs, Parameters
from ...algorithms.derived_slots import VECTORS
from ...algorithms.graphs import graph, limbs
from ...algorithms.learner import Predict
from ...algorithms.vertex_program import PairProgram, VertexProgram
from ...warehouse.package import read_package
from ..errors import StatementError
from ..forks import FORKS
from ..input.batches import Batch
from ..input.encoder import Encoder
from ..input.operator_inputs import offered_of
from ..input.runs.finding import of_one_request
from ..input.runs.one_user import UserSlots
from ..input.scaling import scale
from ..ps.messages import Keys
from ..training.compiled import prepare_jax
from ..training.online.kept_past import KeptPast
from ..training.online.outputs import Said
from ..training.online.step import chosen, inputs_of, score_step
from ..training.packaged.matrix import TABLE, column_names, matrix_of
from ..training.recipe import algorithm_of, scores_augmented
from .scorer import Padding, Pull, Scorer, Shape
from .side_vectors import SideOutputs

if TYPE_CHECKING:
    from ...algorithms.chunk import Chunk
    from ...warehouse.version import Version

KEPT = 32


class AlgorithmScorer(Scorer):
    """Scores rows with a version by its algorithm.

    Attributes:
        compiles: a program is compiled for each shape.
        plain: a batch is the values of slots, and no more that an augment or a package makes of them.
        logarithmic: numbers are taken on a logarithmic scale.
        probabilities: predictions are some, of labels of 0 and 1.
        shares: as Padding has it, where the algorithm can and there are histories, or a tower of the user.
    """

    def __init__(self, version: Version, pull: Pull, sizes: Padding | None) -> None:
        prepare_jax()
        super().__init__(version, pull, sizes)
        algorithm, columns = algorithm_of(version.manifest), self._columns
        learner, program = algorithm.learns.learner, algorithm.program
        self._algorithm = algorithm
        self._encoder = Encoder(columns, algorithm, version.manifest.seed, compact=sizes is None)
        self._user = UserSlots.of(algorithm.traits.user, columns.layout, columns.intercept)
        self.shares = (
            sizes is not None
            and sizes.shares
            and algorithm.traits.compact
            and (self._user is not None or any(block.once for block, _ in columns.blocks))
            and not columns.searched
        )
        states = algorithm.traits.states if sizes is not None and sizes.shares else None
        self._past = None if states is None else KeptPast(states)
        self.compiles, self.logarithmic = learner is None and program is None, algorithm.traits.logarithmic
        self.probabilities = algorithm.classifier
        more = scores_augmented(algorithm) or columns.offered or columns.sides or algorithm.tree is not None
        self.plain = self.compiles and not more
        if learner is not None:
            self._score = self._by_package(learner.load(read_package(version.stored("package")[0])))
        elif program is not None:
            self._score = self._by_vertex(version, program)
        else:
            self._score = self._by_rows(algorithm)

    def _chunk(self, table: pa.Table) -> Chunk:
        chunk = self._encoder.compacted(self._encoder.scored(table))
        if not self.shares:
            return chunk
        return of_one_request(chunk) if self._user is None else of_one_request(chunk, self._user.lines, self._user.bags)

    def unchanged(self, table: pa.Table) -> Chunk:
        """Encode rows without what augments make of them; see `predict`."""
        return self._encoder.unlabelled(table)

    def _say(self, batch: Batch) -> Said:
        FORKS.check_jax()
        if self.shares and self._user is not None and (batch.group is not None or not batch.blocks):
            batch = self._user.held_once(batch)
        return self._score(batch)

    def computed(self, table: pa.Table, compute: Callable[[Parameters, Inputs], Any]) -> Iterator[tuple[Any, Any, int]]:
        """Yield, of some rows at once, what a function computes of their rows and inputs, the dense parameters, and how many
        there are; see `predict`.

        Args:
            compute: the same one for the same algorithm, so that it is compiled once.
        """
        FORKS.check_jax()
        for batch in self.encoded(table) if table.num_rows else ():
            pulled = self._pull(batch.keys, batch.size)
            batch = chosen(self._algorithm, batch, pulled)
            inputs = inputs_of(batch, scale(batch.dense, self.scales.slots, len(batch.weight)), None)
            parameters: dict[str, Any] = {**pulled.weights, **pulled.dense}
            yield compiled(compute)(parameters, inputs), pulled.dense, batch.examples

    def rows(self, keys: Keys, table: str) -> NDArray[np.float32]:
        """Return the rows of distinct keys in a table, float32[n, dim]; zeros where there is none."""
        return self._pull(keys, len(keys)).weights[table]

    def compile(self, row: pa.Table, shape: Shape) -> None:
        """Compile the program of a shape, unless it is there.

        Args:
            row: any row, as `predict` takes it.
        """
        like = self.encoded(pa.concat_tables([row, row]) if shape.shared else row)[0]
        self._say(like.empty(shape.batch, shape.features, shape.values))

    def _by_package(self, predict: Predict) -> Callable[[Batch], Said]:
        names = column_names(self._columns)

        def say(batch: Batch) -> Said:
            pulled = self._pull(batch.keys, batch.size)
            matrix = matrix_of(batch, pulled.weights[TABLE][:, 0], names, pulled.offered)
            return Said(predict(matrix).reshape(batch.examples, -1), {})

        return say

    def _by_vertex(self, version: Version, program: VertexProgram | PairProgram) -> Callable[[Batch], Said]:
        if isinstance(program, PairProgram):
            raise StatementError(
                f"{version.manifest.algorithm.name} scores pairs of vertices, of which ML.RELATED has a list: SELECT * FROM "
                f"ML.RELATED(MODEL {version.manifest.model}, (SELECT DISTINCT item AS {limbs.NODE} FROM t))."
            )

        def say(batch: Batch) -> Said:
            rows = self._pull(batch.keys, batch.size).weights[limbs.TABLE]
            values = graph.shown(*limbs.of_row(rows[batch.scalar[0, : batch.examples]]), program.kind)
            return Said(np.empty((batch.examples, 0), np.float32), {program.value: values})

        return say

    def _by_rows(self, algorithm: Algorithm) -> Callable[[Batch], Said]:
        step, labelled = score_step(algorithm), bool(self._columns.labels)
        dim = next((table.dim for table in algorithm.tables if table.name == VECTORS), 0)
        sides = [SideOutputs(network, dim) for network in algorithm.sides]

        def say(batch: Batch) -> Said:
            dense, examples = scale(batch.dense, self.scales.slots, len(batch.weight)), batch.examples
            pulled = self._pull(batch.keys, batch.size)
            batch, parameters = chosen(algorithm, batch, pulled), {**pulled.weights, **pulled.dense}
            batch = batch if self._past is None else self._past.shortened(batch, parameters)
            made = [side.of(rows, batch.size, pulled.dense) for side, rows in zip(sides, batch.sides, strict=True)]
            said = step(parameters, inputs_of(batch, dense, None, made), offered_of(batch, pulled.offered))
            outputs = {name: np.asarray(said.outputs[name])[:examples] for name in algorithm.outputs}  # in this order
            if not labelled:
                return Said(np.empty((examples, 0), np.float32), outputs)
            return Said(self.scales.restored(np.asarray(said.predictions)[:examples]), outputs)

        return say


@functools.lru_cache(maxsize=KEPT)
def compiled(compute: Callable[[Parameters, Inputs], Any]) -> Callable[[Parameters, Inputs], Any]:
    """Return a function of rows and inputs, jitted."""
    return jax.jit(compute)

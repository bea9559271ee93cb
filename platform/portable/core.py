"""The scores of a version as a graph of ONNX over rows, made of its JAX functions by jax2onnx."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...algorithms.augments.past_fields import PastFields
from ...algorithms.base import Algorithm, Inputs
from ...algorithms.blocks.bags import BagRows
from ...algorithms.blocks.events import EVENTS, Events
from ...algorithms.inputs import SideVectors
from ...algorithms.layers.lookups import portable
from ..errors import ModelError, StatementError, XpsqlError
from ..images.layout import RowColumn
from ..input.operator_inputs import Offered
from ..system import needing
from ..training.online.step import say
from .curves import BIASES, calibrated
from .interface import BAG, OUTPUTS, SCALAR, Interface

if TYPE_CHECKING:
    import onnx

    from ..training.profiles.calibrators import Calibrators

OPSET = 21
LINES = "window", "moment", "seconds", "until", "before"
"""The arrays of events that a graph has of each row, by the names of Events."""


class CoreInput(NamedTuple):
    """An input of the function of rows: its name, its shape, where "B" is the batch, and its type."""

    name: str
    shape: tuple[int | str, ...]
    dtype: Any


class Core:
    """A function from rows to a version's outputs for examples, before labels are restored.

    Inputs, as far as there are any, all as in `Inputs`: `rows` float32[n, width], the first one zeros, then the constant ones;
    `scalar`, `bag_index`, `bag_example`, `bag_slot`, `bag_weight`, `dense`, standardised, the arrays of each record of a block,
    as `BlockInputs.named` names them, of events `LINES`, and `weight`.

    Args:
        columns: of rows, all of a version side by side; those of vectors with ids, `OUTPUTS`, in the order of the layout's.
        constants: float32[intercept, numbers, offered; width], rows that all examples have.
        dense: the dense parameters.
        calibrators: of its predictions; None: they are what the model says.

    Attributes:
        inputs: in order.
        constants: as given.
        logarithmic: numbers are taken on a logarithmic scale before they are standardised.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        interface: Interface,
        columns: Sequence[RowColumn],
        constants: NDArray[np.float32],
        dense: Mapping[str, Any],
        calibrators: Calibrators | None,
    ) -> None:
        self._algorithm, self._interface, self._columns = algorithm, interface, columns
        self._calibrators = calibrators
        self._dense, self.constants, self.logarithmic = dense, constants, algorithm.traits.logarithmic
        self._numbers = sum(max(number.size, 1) for number in interface.numbers)
        intercept = int(interface.columns.intercept)
        self.inputs = [CoreInput("rows", ("n", constants.shape[1]), np.float32)]
        if scalars := len(interface.of_kind(SCALAR)) + intercept:
            self.inputs.append(CoreInput("scalar", (scalars, "B"), np.int32))
        if interface.of_kind(BAG):
            self.inputs += [CoreInput(f"bag_{name}", ("K",), np.int32) for name in ("index", "example", "slot")]
            self.inputs.append(CoreInput("bag_weight", ("K",), np.float32))
        if self._numbers:
            self.inputs.append(CoreInput("dense", ("B", self._numbers), np.float32))
        for own in interface.blocks:
            if own.block is EVENTS:
                self.inputs += [CoreInput(own.named(name), ("B",), np.int32) for name in LINES]
                continue
            sizes: dict[str, int | str] = {**own.block.sizes(own.slots), "B": "B", "L": f"L{own.number}"}
            for name, (axes, dtype) in own.block.arrays.items():
                self.inputs.append(CoreInput(own.named(name), tuple(sizes[axis] for axis in axes), dtype))
        self.inputs.append(CoreInput("weight", ("B",), np.float32))

    def said(self, *arrays: jax.Array) -> list[jax.Array]:
        """Return predictions float32[B, labels], where there are labels, and outputs."""
        given = dict(zip((one.name for one in self.inputs), arrays, strict=True))
        batch, none = given["weight"].shape[0], jnp.zeros(0, jnp.int32)
        first = 1 + int(self._interface.columns.intercept)  # the first row is zeros
        rows, example, slot = (given.get(f"bag_{name}", none) for name in ("index", "example", "slot"))
        inputs = Inputs(
            scalar=given.get("scalar", jnp.zeros((0, batch), jnp.int32)),
            bags=BagRows(rows, example, slot, given.get("bag_weight", jnp.zeros(0))),
            dense=given.get("dense", jnp.zeros((batch, 0))),
            dense_index=jnp.arange(first, first + self._numbers, dtype=jnp.int32),
            label=jnp.zeros((batch, 0)),
            weight=given["weight"],
        )
        for own in self._interface.blocks:
            if own.block is EVENTS:
                fields = next(one.lines for one in self._algorithm.learns.augment if isinstance(one, PastFields))
                seen = inputs.scalar[jnp.array(fields)]
                inputs = inputs.having(EVENTS, [events_of({name: given[own.named(name)] for name in LINES}, seen)])
                continue
            record = own.block.made({name: given[own.named(name)] for name in own.block.arrays})
            inputs = inputs.having(own.block, (*inputs.block(own.block), record))
        parameters, offered = {name: jnp.asarray(values) for name, values in self._dense.items()}, None
        sides: list[SideVectors] = []
        biases = None
        for column in self._columns:
            # No slice: jax2onnx 0.17 cuts an axis of any size to one.
            values = given["rows"][:, np.arange(column.first, column.first + column.floats)]
            if column.column == "w":
                parameters[column.table] = values
            elif column.column == BIASES:
                assert self._calibrators is not None
                assert self._calibrators.line is not None
                biases = values[inputs.scalar[self._calibrators.line]]
            elif column.column == OUTPUTS:
                sides.append(SideVectors(None, None, values))
            else:
                offered = Offered(values, jnp.arange(first + self._numbers, 1 + len(self.constants), dtype=jnp.int32))
        found = say(self._algorithm, parameters, inputs._replace(sides=tuple(sides)), offered)
        predictions = found.predictions
        if self._calibrators is not None and predictions is not None:
            predictions = calibrated(predictions, self._calibrators, biases)
        return [*([] if predictions is None else [predictions]), *found.outputs.values()]

    def graph(self, what: str) -> onnx.ModelProto:
        """Return the function as a graph, whose outputs are `said_0`, `said_1`, ...

        Args:
            what: is exported, in words for messages.

        Raises:
            StatementError: the packages are not installed.
            ModelError: jax2onnx cannot convert the functions of the algorithm.
        """
        to_onnx = needed(what)
        names = sorted({size for one in self.inputs for size in one.shape if isinstance(size, str)})
        sizes = dict(zip(names, jax.export.symbolic_shape(", ".join(names)), strict=True))
        shapes: list[Any] = [
            jax.ShapeDtypeStruct([sizes[n] if isinstance(n, str) else n for n in one.shape], one.dtype)  # type: ignore[no-untyped-call]
            for one in self.inputs
        ]
        try:
            with portable(), quiet():
                outputs = [f"said_{i}" for i in range(len(jax.eval_shape(self.said, *shapes)))]
                model = to_onnx(
                    self.said, shapes, opset=OPSET, input_names=[one.name for one in self.inputs], output_names=outputs
                )
        except Exception as error:
            known = isinstance(error, XpsqlError)
            raise ModelError(
                f"{what} cannot be converted by jax2onnx: {error if known else f'{type(error).__name__}: {error}'}"
            ) from error
        cleared(model.graph)
        return model


def events_of(lines: Mapping[str, jax.Array], fields: jax.Array) -> Events:
    """Return the events of a batch, all in one strip and each an example.

    Args:
        fields: int32[fields, batch], the rows of events.
        lines: int32[batch] each, as Events has them, but that a window has the number of its first cell, and a moment how many
            events are before it in its window.
    """
    window, moment, seconds, until = (lines[name][None] for name in LINES[:4])
    own, begins = jax.lax.iota(jnp.int32, fields.shape[1]), (window, window + moment)
    ends = own, lines["before"], jnp.ones(2, jnp.bool_)
    return Events(fields[:, None], window >= 0, window, moment, seconds, until, *ends, begins=begins)


def needed(what: str) -> Any:
    """Return jax2onnx's function.

    Raises:
        StatementError: a package is not installed.
    """
    try:
        with quiet():
            import onnx  # noqa: F401
            import onnxruntime  # noqa: F401
            from jax2onnx import to_onnx
    except ImportError as error:
        need = f"EXPORT MODEL as {what} needs the packages jax2onnx, onnx and onnxruntime"
        raise StatementError(needing(need, "onnx")) from error
    return to_onnx


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of jax2onnx and its packages while the block runs."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def cleared(graph: onnx.GraphProto) -> None:
    """Take what jax2onnx notes of inner values out of a graph, which may be wrong, and constants without use, in place."""
    del graph.value_info[:]
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                cleared(attribute.g)
                used |= captured(attribute.g)
    kept = [constant for constant in graph.initializer if constant.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def captured(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a body and the bodies within it read, their own among them."""
    found = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= captured(attribute.g)
    return found

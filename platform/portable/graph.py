"""Graphs of ONNX for programs that know nothing of xpsql: keys or rows of slots, and numbers as they are, to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...algorithms.augments.pairs import SHORT
from ...algorithms.blocks.events import EVENTS
from ..images.layout import PAGE, PLACES, RowsLayout
from ..input.scaling import LIMIT, Scales, deviation
from .core import OPSET, Core
from .graph_builder import GraphBuilder
from .interface import BAG, OF_EVENTS, SCALAR, VECTOR, BlockInputs, GraphInput, Interface
from .results import Results, finish

if TYPE_CHECKING:
    import onnx

IR_VERSION = 10
PRODUCER = "xpsql"
HALF_KEY = 1 << 32


class StoredRows(NamedTuple):
    """A file of rows beside a graph."""

    file: str
    layout: RowsLayout


def assemble(
    core: Core,
    interface: Interface,
    scales: Scales,
    results: Results,
    rows: Sequence[StoredRows] | None,
    absent: int,
    what: str,
) -> onnx.ModelProto:
    """Return the graph of a version.

    Args:
        rows: the files in which the graph finds the rows of keys; None: it takes rows.
        absent: the key of what is not there.
        what: is exported, in words for messages.

    Raises:
        StatementError, ModelError: see Core.graph.
    """
    from onnx import TensorProto, compose, helper

    inner = compose.add_prefix(core.graph(what), "core/")
    width, build = core.constants.shape[1], GraphBuilder()
    numbers = dense_inputs(build, interface, scales, core.logarithmic)
    slots = slots_of_rows(build, interface) if rows is None else slots_of_keys(build, interface, absent)
    inputs = numbers | block_inputs(build, interface) | index_inputs(build, interface, slots, core, rows)
    for name, value in inputs.items():
        build.add("Identity", value, output=f"core/{name}")
    before = len(build.nodes)
    finish(build, results, scales)
    graph = helper.make_graph(
        [*build.nodes[:before], *inner.graph.node, *build.nodes[before:]],
        PRODUCER,
        declared(interface, width if rows is None else 0),
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size] if size else ["batch"])
            for name, size in results.all
        ],
        [*build.constants, *inner.graph.initializer],
    )
    imports = [helper.make_opsetid(one.domain, one.version) for one in inner.opset_import] or [helper.make_opsetid("", OPSET)]
    return helper.make_model(
        graph, functions=list(inner.functions), opset_imports=imports, ir_version=IR_VERSION, producer_name=PRODUCER
    )


def declared(interface: Interface, width: int) -> list[Any]:
    """Return the inputs of a graph over keys, or of one over rows of a width."""
    from onnx import TensorProto, helper

    key, rows = (TensorProto.FLOAT, [width]) if width else (TensorProto.INT64, [])
    found = []

    def add(name: str, kind: Any, *shape: Any) -> None:
        found.append(helper.make_tensor_value_info(name, kind, ["batch", *shape]))

    for one in interface.features if not (width and interface.pairs) else interface.of_kind(BAG):
        axes = {SCALAR: [], BAG: [f"{one.name}.values"]}.get(one.kind, [one.axis])
        add(one.name, key, *axes, *rows)
        if one.name in interface.weighted or (width and one.kind == BAG):
            add(f"{one.name}.weight", TensorProto.FLOAT, *axes)
    for own in interface.sequences if width else []:
        add(f"{own.inputs[0].name}.mask", TensorProto.BOOL, own.inputs[0].axis)
    for number in interface.numbers:
        add(number.name, TensorProto.FLOAT, *([number.size] if number.kind == VECTOR else []))
    for other in interface.others:
        if other.kind in OF_EVENTS:
            found.append(helper.make_tensor_value_info(other.name, TensorProto.INT64, ["batch"]))
            continue
        add(other.name, TensorProto.FLOAT, other.axis, *([other.size] if other.size else []))
    return found


def dense_inputs(build: GraphBuilder, interface: Interface, scales: Scales, logarithmic: bool) -> dict[str, str]:
    """Add what standardises numbers, as `scale` does, in doubles."""
    if not interface.numbers:
        return {}
    parts, zero = [], build.constant(0.0, np.float32)
    statistics = zip(scales.slots.mean, deviation(scales.slots), strict=True)
    for number in interface.numbers:
        value = number.name
        if number.kind == VECTOR:
            parts.append(build.add("Where", unknown(build, value), zero, value))
            continue
        mean, spread = next(statistics)
        value = build.cast(value, "DOUBLE")
        if logarithmic:
            grown = build.add("Log", build.add("Add", build.add("Abs", value), build.constant(1.0, np.float64)))
            value = build.cast(build.cast(build.add("Mul", build.add("Sign", value), grown), "FLOAT"), "DOUBLE")
        value = build.add("Sub", value, build.constant(mean, np.float64))
        value = build.add("Div", value, build.constant(spread, np.float64))
        value = build.add("Clip", value, build.constant(-LIMIT, np.float64), build.constant(LIMIT, np.float64))
        value = build.add("Where", build.add("IsNaN", value), build.constant(0.0, np.float64), value)
        parts.append(build.add("Unsqueeze", build.cast(value, "FLOAT"), build.constant([1])))
    return {"dense": build.add("Concat", *parts, axis=1)}


def block_inputs(build: GraphBuilder, interface: Interface) -> dict[str, str]:
    """Add the arrays of blocks whose values have no rows."""
    found = dict[str, str]()
    for own in interface.blocks:
        if own.block is EVENTS:
            user, moment = (one.name for kind in OF_EVENTS for one in own.inputs if one.kind == kind)
            found |= {own.named(name): value for name, value in event_arrays(build, user, moment).items()}
        elif not own.block.rows:
            (one,) = own.inputs
            found |= {own.named(name): value for name, value in own.block.graph(build, one.name).items()}
    return found


def event_arrays(build: GraphBuilder, user: str, moment: str) -> dict[str, str]:
    """Add the arrays of events, of rows user by user, each user's in order of time: int32[batch] each; see Core."""
    last, none, seconds = build.constant(np.iinfo(np.int64).max), build.constant(-1), build.constant(1_000_000)

    def beside(value: str) -> tuple[str, str]:
        return build.add("Unsqueeze", value, build.constant([1])), build.add("Unsqueeze", value, build.constant([0]))

    def reduced(kind: str, condition: str, values: str, rest: str) -> str:
        return build.add(kind, build.add("Where", condition, values, rest), build.constant([1]), keepdims=0)

    def small(value: str) -> str:
        return build.cast(build.add("Min", value, build.constant(np.iinfo(np.int32).max)), "INT32")

    (one, other), (own, theirs) = beside(user), beside(moment)
    same = build.add("Equal", one, other)
    earlier, later = (build.add("And", same, build.add(kind, theirs, own)) for kind in ("Less", "Greater"))
    size = build.add("Squeeze", build.add("Shape", user))
    _, place = beside(build.add("Range", build.constant(0), size, build.constant(1)))
    began, following = reduced("ReduceMin", same, theirs, last), reduced("ReduceMin", later, theirs, last)
    until = build.add("Where", build.add("Equal", following, last), moment, following)
    found = {
        "window": reduced("ReduceMin", same, place, last),
        "moment": reduced("ReduceSum", earlier, build.constant(1), build.constant(0)),
        "seconds": build.add("Div", build.add("Sub", moment, began), seconds),
        "until": build.add("Div", build.add("Sub", until, began), seconds),
        "before": reduced("ReduceMax", earlier, place, none),
    }
    return {name: small(value) for name, value in found.items()}


def unknown(build: GraphBuilder, value: str) -> str:
    """Add what tells which numbers are none, or infinite."""
    return build.add("Or", build.add("IsNaN", value), build.add("IsInf", value))


class SlotNames(NamedTuple):
    """The names of values of a graph.

    Attributes:
        laid: of each input of features of the core, its keys, or its rows.
        weights: of each slot of several keys.
        masks: of each record of a block whose values have rows.
    """

    laid: dict[str, str]
    weights: list[str]
    masks: list[str]


def slots_of_rows(build: GraphBuilder, interface: Interface) -> SlotNames:
    """Lay the rows of slots."""
    bags = [one.name for one in interface.of_kind(BAG)]
    return SlotNames(
        laid_slots(build, interface, bags),
        [f"{name}.weight" for name in bags],
        [f"{own.inputs[0].name}.mask" for own in interface.sequences],
    )


def slots_of_keys(build: GraphBuilder, interface: Interface, absent: int) -> SlotNames:
    """Lay the keys of slots, and tell which of them are there."""
    nothing, weights, masks = build.constant(absent), [], []
    bags = [bag.name if interface.pairs is None else paired(build, interface, bag, nothing) for bag in interface.of_kind(BAG)]
    for bag, keys in zip(interface.of_kind(BAG), bags, strict=True):
        there = present(build, keys, nothing)
        if interface.pairs is not None:
            short = build.constant(SHORT, np.float32)
            length = build.add("ReduceSum", present(build, bag.name, nothing), build.constant([1]))
            there = build.add("Mul", there, build.add("Sqrt", build.add("Div", short, build.add("Max", length, short))))
        weights.append(build.add("Mul", there, f"{bag.name}.weight") if bag.name in interface.weighted else there)
    laid = laid_slots(build, interface, bags)
    for own in interface.sequences:
        there = build.cast(build.add("Not", build.add("Equal", laid[rows_named(own)], nothing)), "INT8")
        masks.append(build.cast(build.add("ReduceMax", there, build.constant([0]), keepdims=0), "BOOL"))
    return SlotNames(laid, weights, masks)


def present(build: GraphBuilder, keys: str, nothing: str) -> str:
    return build.cast(build.add("Not", build.add("Equal", keys, nothing)), "FLOAT")


def laid_slots(build: GraphBuilder, interface: Interface, bags: Sequence[str]) -> dict[str, str]:
    found = {}
    if scalars := interface.of_kind(SCALAR):
        found["scalar"] = stacked(build, [one.name for one in scalars])
    found |= {f"bag_{i}": name for i, name in enumerate(bags)}
    return found | {rows_named(own): stacked(build, [one.name for one in own.inputs]) for own in interface.sequences}


def rows_named(own: BlockInputs) -> str:
    """Return the name of the rows of a block whose values have rows, its first array."""
    return own.named(next(iter(own.block.arrays)))


def index_inputs(
    build: GraphBuilder, interface: Interface, slots: SlotNames, core: Core, stored: Sequence[StoredRows] | None
) -> dict[str, str]:
    """Add the core's rows, and which of them each slot of each example has."""
    zeros, index = np.zeros((1, core.constants.shape[1])), dict[str, str]()
    rows, at = [build.constant(np.concatenate([zeros, core.constants]), np.float32)], build.constant(1 + len(core.constants))
    for name, value in slots.laid.items():
        shape = build.add("Shape", value) if stored is not None else build.add("Shape", value, end=-1)
        until = build.add("Add", at, build.add("ReduceProd", shape, keepdims=0))
        index[name] = build.cast(build.add("Reshape", build.add("Range", at, until, build.constant(1)), shape), "INT32")
        at = until
    if stored is None:
        flat = build.constant([-1, core.constants.shape[1]])
        rows += [build.add("Reshape", value, flat) for value in slots.laid.values()]
    elif slots.laid:
        every = [build.flat(keys) for keys in slots.laid.values()]
        keys = build.add("Concat", *every, axis=0)
        looked = [lookup(build, one, keys, number) for number, one in enumerate(stored)]
        rows.append(build.add("Concat", *looked, axis=1))
    first = (*interface.of_kind(BAG), *interface.features, *interface.numbers, *interface.others)[0].name
    batch = build.add("Shape", first, start=0, end=1)
    found = {
        "rows": build.add("Concat", *rows, axis=0),
        "weight": build.add("Expand", build.constant([1.0], np.float32), batch),
    }
    lines = [index["scalar"]] if "scalar" in index else []
    if interface.columns.intercept:
        one = build.add("Concat", build.constant([1]), batch, axis=0)
        lines.append(build.add("Expand", build.constant([[1]], np.int32), one))
    if lines:
        found["scalar"] = build.add("Concat", *lines, axis=0)
    examples = build.add("Range", build.constant(0), build.add("Squeeze", batch), build.constant(1))
    column = build.cast(build.add("Unsqueeze", examples, build.constant([1])), "INT32")
    parts: dict[str, list[str]] = {"index": [], "example": [], "slot": [], "weight": []}
    for i, weight in enumerate(slots.weights):
        shape = build.add("Shape", weight)
        parts["index"].append(build.flat(index[f"bag_{i}"]))
        parts["example"].append(build.flat(build.add("Expand", column, shape)))
        parts["slot"].append(build.flat(build.add("Expand", build.constant([[i]], np.int32), shape)))
        parts["weight"].append(build.flat(weight))
    found |= {f"bag_{name}": build.add("Concat", *values, axis=0) for name, values in parts.items() if values}
    for own, mask in zip(interface.sequences, slots.masks, strict=True):
        found |= {rows_named(own): index[rows_named(own)], own.named("mask"): mask}
    return found


def stacked(build: GraphBuilder, values: Sequence[str]) -> str:
    return build.add("Concat", *(build.add("Unsqueeze", value, build.constant([0])) for value in values), axis=0)


def paired(build: GraphBuilder, interface: Interface, bag: GraphInput, nothing: str) -> str:
    """Add the keys of pairs, see `pair_keys`, of the operators that servers have for int64."""
    assert interface.pairs is not None
    scalar = [one.name for one in interface.features if one.kind == SCALAR]
    item, half = build.add("Unsqueeze", scalar[interface.pairs.item], build.constant([1])), build.constant(HALF_KEY)

    def upper(key: str) -> str:
        return build.add("Sub", key, build.add("Mod", key, half))

    lower = build.add("Mod", build.add("Div", upper(bag.name), half), half)
    nowhere = build.add("Or", build.add("Equal", item, nothing), build.add("Equal", bag.name, nothing))
    nowhere = build.add("Or", nowhere, build.add("Equal", item, bag.name))
    return build.add("Where", nowhere, nothing, build.add("Add", upper(item), lower))


def lookup(build: GraphBuilder, stored: StoredRows, keys: str, number: int) -> str:
    """Add what finds the rows of keys in a file: float32[keys, width]; see images/layout.py."""
    layout, four = stored.layout, build.constant(PLACES)
    first, second = layout.primes
    table = build.mapped(f"xpsql/keys_{number}", stored.file, np.dtype("<i8"), (first, PLACES), PAGE)
    rows = build.mapped(f"xpsql/rows_{number}", stored.file, layout.dtype, (layout.places + 1, layout.width), layout.rows_at)
    buckets = [build.add("Mod", keys, build.constant(prime)) for prime in (first, second)]
    there = build.add("Concat", *(build.add("Gather", table, bucket) for bucket in buckets), axis=1)
    equal = build.cast(build.add("Equal", there, build.add("Unsqueeze", keys, build.constant([1]))), "INT8")
    place = build.add("ArgMax", equal, axis=1, keepdims=0)
    known = build.cast(build.add("ReduceMax", equal, build.constant([1]), keepdims=0), "BOOL")
    bucket = build.add("Where", build.add("Less", place, four), *buckets)
    row = build.add("Add", build.add("Mul", bucket, four), build.add("Mod", place, four))
    found = build.add("Gather", rows, build.add("Where", known, row, build.constant(layout.places)))
    return build.cast(found, "FLOAT") if layout.half else found

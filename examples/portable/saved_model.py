"""A SavedModel of an export's `dense.onnx`, for TF-Serving: python saved_model.py out/serving out/saved_model/1

It needs `pip install tensorflow-cpu onnx`, and for the comparison with parity.parquet what reader.py needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper

Values = Sequence[Any]
MOST = 1e-5

# Operators whose functions take the same inputs in the same order.
SAME: dict[str, Callable[..., Any]] = {
    "Abs": tf.abs,
    "Add": tf.add,
    "And": tf.logical_and,
    "Clip": tf.clip_by_value,
    "Div": tf.divide,
    "Equal": tf.equal,
    "Exp": tf.exp,
    "Expand": lambda x, shape: tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x, shape.dtype), shape)),
    "GatherND": tf.gather_nd,
    "Greater": tf.greater,
    "GreaterOrEqual": tf.greater_equal,
    "Identity": tf.identity,
    "IsInf": tf.math.is_inf,
    "IsNaN": tf.math.is_nan,
    "Less": tf.less,
    "LessOrEqual": tf.less_equal,
    "Log": tf.math.log,
    "MatMul": tf.matmul,
    "Max": tf.maximum,
    "Min": tf.minimum,
    "Mul": tf.multiply,
    "Neg": tf.negative,
    "NonZero": lambda x: tf.transpose(tf.where(x)),
    "Not": tf.logical_not,
    "Or": tf.logical_or,
    "Pow": tf.pow,
    "Range": tf.range,
    "Relu": tf.nn.relu,
    "Sigmoid": tf.sigmoid,
    "Sign": tf.sign,
    "Softplus": tf.math.softplus,
    "Sqrt": tf.sqrt,
    "Sub": tf.subtract,
    "Tanh": tf.tanh,
    "Tile": tf.tile,
    "Where": tf.where,
}
REDUCED = {"ReduceMax": tf.reduce_max, "ReduceMean": tf.reduce_mean, "ReduceProd": tf.reduce_prod, "ReduceSum": tf.reduce_sum}


def constant(x: Any) -> list[int]:
    """Return what a constant says."""
    found: list[int] = np.asarray(tf.get_static_value(x)).tolist()
    return found


def sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any = None) -> Any:
    """Return x[start:end:step] along some axes, which are constants."""
    cut = [slice(None)] * len(x.shape)
    for i, axis in enumerate(constant(axes)):
        cut[axis] = slice(starts[i], tf.minimum(ends[i], tf.shape(x, ends.dtype)[axis]), 1 if steps is None else steps[i])
    return x[tuple(cut)]


def reshaped(x: Any, shape: Any) -> Any:
    """Return x in a shape, in which 0 is the length that it has."""
    own = tf.concat([tf.shape(x, shape.dtype), tf.zeros(tf.size(shape), shape.dtype)], 0)[: tf.size(shape)]
    return tf.reshape(x, tf.where(shape == 0, own, shape))


def transposed(x: Any, swap: int) -> Any:
    return tf.transpose(x) if swap else x


def computed(kind: str, given: Values, attributes: dict[str, Any]) -> Any:
    """Return the output of an operator; `attributes` are those of its node."""
    if kind in SAME:
        return SAME[kind](*given)
    if kind in REDUCED:
        axes = attributes.get("axes", given[1] if len(given) > 1 else None)
        return REDUCED[kind](
            given[0],
            None if axes is None else axes if isinstance(axes, list) else constant(axes),
            bool(attributes.get("keepdims", 1)),
        )
    match kind:
        case "Cast":
            return tf.cast(given[0], helper.tensor_dtype_to_np_dtype(attributes["to"]))
        case "Concat":
            return tf.concat(given, attributes["axis"])
        case "ConstantOfShape":
            return tf.fill(given[0], numpy_helper.to_array(attributes["value"])[0])
        case "Einsum":
            return tf.einsum(attributes["equation"].decode(), *given)
        case "Gather":
            size = tf.shape(given[0], given[1].dtype)[attributes.get("axis", 0)]
            return tf.gather(given[0], tf.where(given[1] < 0, given[1] + size, given[1]), axis=attributes.get("axis", 0))
        case "Gemm":
            product = tf.matmul(
                transposed(given[0], attributes.get("transA", 0)), transposed(given[1], attributes.get("transB", 0))
            )
            return attributes.get("alpha", 1.0) * product + sum(attributes.get("beta", 1.0) * one for one in given[2:])
        case "Reshape":
            return reshaped(*given)
        case "Pad":
            return tf.pad(
                given[0], tf.transpose(tf.reshape(given[1], (2, -1))), constant_values=given[2] if len(given) > 2 else 0
            )
        case "ReduceSumSquare":
            return computed("ReduceSum", [given[0] * given[0], *given[1:]], attributes)
        case "ScatterND":
            added = attributes.get("reduction", b"none") == b"add"
            return (tf.tensor_scatter_nd_add if added else tf.tensor_scatter_nd_update)(*given)
        case "Shape":
            return tf.shape(given[0], tf.int64)[attributes.get("start", 0) : attributes.get("end")]
        case "Slice":
            return sliced(*given)
        case "Softmax":
            return tf.nn.softmax(given[0], attributes.get("axis", -1))
        case "Split":
            sizes = constant(given[1]) if len(given) > 1 else attributes["num_outputs"]
            return tf.split(given[0], sizes, attributes.get("axis", 0))
        case "Squeeze":
            return tf.squeeze(given[0], constant(given[1]) if len(given) > 1 else None)
        case "Transpose":
            return tf.transpose(given[0], attributes.get("perm"))
        case "Unsqueeze":
            x = given[0]
            for axis in sorted(constant(given[1])):
                x = tf.expand_dims(x, axis)
            return x
    raise ValueError(f"The graph has the operator {kind}, which this script does not translate yet: add it to `computed`.")


def function_of(model: onnx.ModelProto) -> Any:
    """Return a graph as a function of TensorFlow."""

    def run(*inputs: Any) -> dict[str, Any]:
        known: dict[str, Any] = {one.name: tf.constant(numpy_helper.to_array(one)) for one in model.graph.initializer}
        known |= {one.name: tensor for one, tensor in zip(model.graph.input, inputs, strict=True)}
        for node in model.graph.node:
            attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
            found = computed(node.op_type, [known[name] for name in node.input if name], attributes)
            known |= zip(node.output, found if isinstance(found, list) else [found], strict=True)
        return {one.name: known[one.name] for one in model.graph.output}

    signature = []
    for one in model.graph.input:
        kind = one.type.tensor_type
        shape = [size.dim_value or None for size in kind.shape.dim]
        signature.append(tf.TensorSpec(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type), one.name))
    return tf.function(run, input_signature=signature)


def main(export: Path, target: str) -> None:
    """Write the SavedModel, and compare it with the predictions of the export."""
    model = onnx.load(export / "dense.onnx")
    module = tf.Module()
    module.run = function_of(model)
    tf.saved_model.save(module, target, signatures={"serving_default": module.run})
    served = tf.saved_model.load(target).signatures["serving_default"]

    import pyarrow.parquet as pq
    from reader import PortableExport

    rows = pq.read_table(export / "parity.parquet").to_pylist()
    reader = PortableExport(export)
    given = {name: tf.constant(array) for name, array in reader.row_inputs(reader.inputs(rows)).items()}
    for name, found in served(**given).items():
        wanted = np.array([row[name] for row in rows])
        difference = np.abs(np.asarray(found) - wanted).max()
        print(f"{name}: {len(rows)} rows, largest difference {difference:.0e}")
        if difference > MOST:
            sys.exit(f"{target} differs from the export by more than {MOST}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

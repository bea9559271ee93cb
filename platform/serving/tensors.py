"""Requests and answers of the Open Inference Protocol (KServe V2), with tensors as JSON or, by its extension, as bytes.

A column of single values is a tensor [rows] or [rows, 1], one of arrays or vectors [rows, elements]. Where a row has fewer
elements, the tensor `<column>.length` says how many. Any column may be BYTES [rows] of JSON instead, as maps and arrays of
vectors must. A tensor
whose first dimension is 1 holds for all rows of the request.

Source: https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..engines.repeats import one_value
from .inputs import Input, by_lower_name
from .instances import json_values, parsed
from .refusal import RequestError, RequestLimits

LENGTH_HEADER = "inference-header-content-length"
NUMBERS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2", "INT32": "i4",
    "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
UNKNOWN = -1  # in place of NULL, which tensors of whole numbers do not have
MOST_DIMENSIONS, MOST_TENSORS, MOST_LENGTH = 2, 8192, 1 << 31


class Tensor(NamedTuple):
    """A named tensor: its shape, and its values in order: an array of numbers, or a list of Python's."""

    name: str
    shape: tuple[int, ...]
    values: Any

    @property
    def rows(self) -> int:
        return self.shape[0]


class InferRequest(NamedTuple):
    """What a body asks: tensors by lower name, its id, and which outputs it wants as bytes; None of `wanted`: all outputs."""

    tensors: dict[str, Tensor]
    id: str | None
    wanted: list[str] | None
    binary: dict[str, bool]
    all_binary: bool


def request_of(body: bytes, header_bytes: str | None, limits: RequestLimits) -> InferRequest:
    """Return the request of a body.

    Args:
        header_bytes: the header Inference-Header-Content-Length, where it was sent: the bytes of JSON before the bytes of
            tensors.

    Raises:
        RequestError: it does not follow the protocol.
    """
    size = len(body)
    if header_bytes is not None:
        if not (header_bytes.isascii() and header_bytes.isdigit() and len(header_bytes) < 16 and int(header_bytes) <= size):
            raise RequestError(400, f"Inference-Header-Content-Length must be the bytes of JSON, at most {size}.")
        size = int(header_bytes)
    request, rest = parsed(body[:size], limits), body[size:]
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise RequestError(400, 'Expected {"inputs": [{"name", "shape", "datatype", "data"}, ...]}.')
    if len(request["inputs"]) > MOST_TENSORS:
        raise RequestError(413, f"A request may have {MOST_TENSORS} tensors.")
    tensors: dict[str, Tensor] = {}
    for described in request["inputs"]:
        tensor, rest = tensor_of(described, rest)
        limits.check_rows(tensor.rows)
        if tensor.name.lower() in tensors:
            raise RequestError(400, f"The tensor {tensor.name} occurs twice.")
        tensors[tensor.name.lower()] = tensor
    if rest:
        raise RequestError(400, f"{len(rest)} bytes follow the tensors; binary_data_size gives the bytes of each.")
    outputs = request.get("outputs")
    if outputs is not None and not (
        isinstance(outputs, list) and all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in outputs)
    ):
        raise RequestError(400, 'outputs must be [{"name": ...}, ...].')
    binary = {one["name"]: bool(parameters(one)["binary_data"]) for one in outputs or () if "binary_data" in parameters(one)}
    identity = request.get("id")
    return InferRequest(
        tensors,
        identity if isinstance(identity, str) else None,
        None if outputs is None else [one["name"] for one in outputs],
        binary,
        bool(parameters(request).get("binary_data_output", False)),
    )


def parameters(described: Mapping[str, Any]) -> Mapping[str, Any]:
    found = described.get("parameters")
    return found if isinstance(found, dict) else {}


def tensor_of(described: Any, rest: bytes) -> tuple[Tensor, bytes]:
    """Return a tensor as a request describes it, and the bytes after its own."""
    if not isinstance(described, dict) or not isinstance(described.get("name"), str):
        raise RequestError(400, "Each of inputs must be an object with name, shape, datatype and data.")
    name, kind = described["name"], described.get("datatype")
    if not isinstance(kind, str) or (kind != "BYTES" and kind not in NUMBERS):
        raise RequestError(400, f"Tensor {name}: expected a datatype, BYTES, {', '.join(NUMBERS)}; got {kind!r}.")
    shape = shape_of(described)
    count = math.prod(shape)
    size = parameters(described).get("binary_data_size")
    if size is None:
        return Tensor(name, shape, flat(described.get("data"), name, shape)), rest
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(rest):
        raise RequestError(400, f"Tensor {name}: binary_data_size is {size!r}, and {len(rest)} bytes are left.")
    data, rest = rest[:size], rest[size:]
    if kind == "BYTES":
        return Tensor(name, shape, texts(data, count, name)), rest
    dtype = np.dtype(NUMBERS[kind]).newbyteorder("<")
    if size != count * dtype.itemsize:
        raise RequestError(
            400, f"Tensor {name}: {kind} of shape {list(shape)} takes {count * dtype.itemsize} bytes, got {size}."
        )
    raw = np.frombuffer(data, np.uint8) != 0 if kind == "BOOL" else np.frombuffer(data, dtype)
    return Tensor(name, shape, raw), rest


def shape_of(described: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    shape: Any = described.get("shape")
    good = isinstance(shape, list) and 1 <= len(shape) <= MOST_DIMENSIONS
    if not good or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < MOST_LENGTH for n in shape):
        raise RequestError(400, f"Tensor {described['name']}: expected a shape [rows] or [rows, elements], got {shape!r}.")
    return tuple(shape)


def flat(data: Any, name: str, shape: Sequence[int]) -> list[Any]:
    """Return the values of a tensor in JSON: a flat array, or arrays of its rows."""
    if not isinstance(data, list):
        raise RequestError(400, f"Tensor {name}: expected data, an array, or the parameter binary_data_size.")
    if len(shape) == MOST_DIMENSIONS and data and all(isinstance(one, list) for one in data):
        if len(data) != shape[0] or any(len(one) != shape[1] for one in data):
            raise RequestError(400, f"Tensor {name}: expected {shape[0]} arrays of {shape[1]} values.")
        data = [value for one in data for value in one]
    values: list[Any] = data
    if len(data) != math.prod(shape):
        raise RequestError(400, f"Tensor {name}: a shape of {list(shape)} has {math.prod(shape)} values, got {len(data)}.")
    return values


def texts(data: bytes, count: int, name: str) -> list[str]:
    """Return the strings of BYTES: each after its length, four bytes."""
    found, at = [], 0
    try:
        for _ in range(count):
            (size,) = struct.unpack_from("<I", data, at)
            at += 4 + size
            if at > len(data):
                break
            found.append(data[at - size : at].decode())
    except (struct.error, UnicodeDecodeError) as error:
        raise RequestError(400, f"Tensor {name}: expected {count} strings of UTF-8, each after its length: {error}") from error
    if at != len(data) or len(found) != count:
        raise RequestError(400, f"Tensor {name}: expected {count} strings, each after its length, in {len(data)} bytes.")
    return found


def table_of(request: InferRequest, inputs: Sequence[Input], limits: RequestLimits) -> pa.Table:
    """Return the rows of a request as the columns of a version.

    Raises:
        RequestError: a tensor is missing, has another shape, or values that do not fit its column's type.
    """
    tensors = request.tensors
    used = [tensors[column.name.lower()] for column in inputs if column.name.lower() in tensors]
    rows = next((tensor.rows for tensor in used if tensor.rows != 1), 1 if used else 0)
    arrays = []
    for column in inputs:
        tensor = tensors.get(column.name.lower())
        if tensor is None:
            raise RequestError(400, f"The tensor {column.name} is missing. The model has {', '.join(c.name for c in inputs)}.")
        if tensor.rows not in (1, rows):
            raise RequestError(400, f"Tensor {column.name} has {tensor.rows} rows, another one {rows}; expected as many, or 1.")
        array = column_of(tensor, tensors.get(f"{column.name.lower()}.length"), column, limits)
        arrays.append(array if len(array) == rows else one_value(array, rows))
    return pa.table(arrays, names=[column.name for column in inputs])


def column_of(tensor: Tensor, lengths: Tensor | None, column: Input, limits: RequestLimits) -> pa.Array:
    """Return a tensor as a column."""
    many = pa.types.is_list(column.type)
    values = tensor.values
    if many and len(tensor.shape) == MOST_DIMENSIONS:
        if lengths is not None or not isinstance(values, np.ndarray):
            values = values.tolist() if isinstance(values, np.ndarray) else values
            return column.array(cut(values, tensor, lengths))
        offsets = pa.array(np.arange(0, len(values) + 1, max(tensor.shape[1], 1), dtype=np.int32)[: tensor.rows + 1])
        if tensor.shape[1] == 0:
            offsets = pa.array(np.zeros(tensor.rows + 1, np.int32))
        return column.cast(pa.ListArray.from_arrays(offsets, pa.array(values)))
    if math.prod(tensor.shape) != tensor.rows:
        raise RequestError(400, f"Tensor {column.name}: expected the shape [{tensor.rows}], got {list(tensor.shape)}.")
    if many or pa.types.is_map(column.type):
        return column.array(
            [value if not isinstance(value, str) else parsed(value.encode("utf-8", "replace"), limits) for value in values]
        )
    return column.cast(pa.array(values)) if isinstance(values, np.ndarray) else column.array(values)


def cut(values: Sequence[Any], tensor: Tensor, lengths: Tensor | None) -> list[list[Any]]:
    """Return the elements of each row, as many as `lengths` says."""
    width = tensor.shape[1]
    counts = [width] * tensor.rows if lengths is None else list(lengths.values)
    if len(counts) != tensor.rows or not all(isinstance(n, int | np.integer) and 0 <= n <= width for n in counts):
        raise RequestError(400, f"Tensor {tensor.name}.length: expected {tensor.rows} whole numbers from 0 to {width}.")
    return [list(values[row * width : row * width + int(count)]) for row, count in enumerate(counts)]


def answer(request: InferRequest, predictions: Mapping[str, pa.Array], model: str, version: int) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the bytes of its JSON where bytes of tensors follow."""
    names, classes = by_lower_name(predictions), any(pa.types.is_map(column.type) for column in predictions.values())
    outputs, pieces = [], []
    for asked in predictions if request.wanted is None else request.wanted:
        if (name := names.get(asked.lower())) is None:
            raise RequestError(400, f"There is no output {asked}. The model gives {', '.join(predictions)}.")
        column = predictions[name]
        whole = pa.types.is_int64(column.type) and not classes
        if not (whole or pa.types.is_floating(column.type) or pa.types.is_fixed_size_list(column.type)):
            raise RequestError(
                400, f"The output {asked} has classes, which tensors of this protocol do not name. Ask by :predict."
            )
        vectors = pa.types.is_fixed_size_list(column.type)
        values = column.flatten() if vectors else column.fill_null(UNKNOWN) if whole else column
        shape = [len(column), column.type.list_size] if vectors else [len(column)]
        kind = "FP32" if vectors else "INT64" if whole else "FP64"
        output: dict[str, Any] = {"name": asked, "datatype": kind, "shape": shape}
        if request.binary.get(asked, request.all_binary):
            pieces.append(values.to_numpy(zero_copy_only=False).astype(f"<{NUMBERS[kind]}").tobytes())
            output["parameters"] = {"binary_data_size": len(pieces[-1])}
        else:
            output["data"] = json_values(values)
        outputs.append(output)
    answered: dict[str, Any] = {"model_name": model, "model_version": str(version), "outputs": outputs}
    if request.id is not None:
        answered["id"] = request.id
    head = json.dumps(answered).encode()
    return (head, None) if not pieces else (b"".join([head, *pieces]), len(head))


def metadata_shape(column: Input) -> list[int]:
    """Return the shape of tensors of a column, -1 where any size is good."""
    flat = pa.types.is_list(column.type) and not pa.types.is_nested(column.type.value_type)
    return [-1, column.dim] if flat else [-1]


def datatype(kind: pa.DataType) -> str:
    """Return the datatype of tensors of a column, or of its elements."""
    kind = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_decimal(kind):
        return "FP64"
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return "BYTES"
    if pa.types.is_boolean(kind):
        return "BOOL"
    return f"{'FP' if pa.types.is_floating(kind) else 'INT' if pa.types.is_signed_integer(kind) else 'UINT'}{kind.bit_width}"

"""Nodes and constants of a graph of ONNX, added one by one."""

from __future__ import annotations

from typing import Any

import numpy as np


class GraphBuilder:
    """Nodes and constants of a graph, added one by one."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self._helper, self._numpy, self._types = helper, numpy_helper, TensorProto
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return that.

        Args:
            output: its name, where it is known to others.
        """
        name = output or f"xpsql/{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Add a constant, unless it is there, and return its name."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = f"xpsql/constant_{len(self._known)}"
            self.constants.append(self._numpy.from_array(array, self._known[key]))
        return self._known[key]

    def mapped(self, name: str, file: str, kind: np.dtype[Any], shape: tuple[int, ...], at: int) -> str:
        """Add a constant whose values are a part of a file beside the graph."""
        tensor = self._types(name=name, dims=shape, data_type=self._helper.np_dtype_to_tensor_dtype(kind))
        tensor.data_location = self._types.EXTERNAL
        size = int(np.prod(shape)) * kind.itemsize
        for key, value in (("location", file), ("offset", str(at)), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        self.constants.append(tensor)
        return name

    def cast(self, value: str, kind: str, output: str = "") -> str:
        """Add a cast to a type of TensorProto; see `add`."""
        return self.add("Cast", value, output=output, to=getattr(self._types, kind))

    def flat(self, value: str) -> str:
        """Return all values of an array in a row."""
        return self.add("Reshape", value, self.constant([-1]))

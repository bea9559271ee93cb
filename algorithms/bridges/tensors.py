"""What a network in PyTorch sees: the vectors of a batch, which a first layer multiplies without laying them side by side."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..layers import _lookups
from ..layers.lookups import UNITS
from .features import Features, FeatureValues


class Gathered(torch.autograd.Function):  # type: ignore[misc]
    """The rows of each example, float32[batch, lines, dim] of float32[n, dim] and int32[lines, batch]."""

    @staticmethod
    def forward(ctx: Any, rows: Any, index: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.rows = len(rows)
        found = rows.new_empty(index.shape[1], index.shape[0] * rows.shape[1])
        _lookups.gather(rows.detach(), index, found)
        return found.view(index.shape[1], index.shape[0], rows.shape[1])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (index,) = ctx.saved_tensors
        by_rows = gradient.new_empty(ctx.rows, gradient.shape[2])
        _lookups.scatter(gradient.detach().flatten(1).contiguous(), index, by_rows)
        return by_rows, None


class Projected(torch.autograd.Function):  # type: ignore[misc]
    """The rows of each example, side by side, times float32[lines * dim, units]: float32[batch, units]."""

    @staticmethod
    def forward(ctx: Any, rows: Any, index: Any, kernel: Any) -> Any:
        rest = -kernel.shape[1] % UNITS
        padded = torch.nn.functional.pad(kernel.detach(), (0, rest)).contiguous()
        ctx.save_for_backward(rows, index, padded)
        ctx.units = kernel.shape[1]
        found = rows.new_empty(index.shape[1], padded.shape[1])
        _lookups.project(rows.detach(), index, padded, found)
        return found[:, : ctx.units] if rest else found

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        rows, index, padded = ctx.saved_tensors
        sums = torch.nn.functional.pad(gradient.detach(), (0, padded.shape[1] - ctx.units)).contiguous()
        by_rows, by_kernel = torch.empty_like(rows), torch.empty_like(padded)
        _lookups.project_gradients(rows.detach(), index, padded, sums, by_rows, by_kernel)
        return by_rows, None, by_kernel[:, : ctx.units]


class TensorValues(FeatureValues):
    """The inputs of a batch as tensors; see `BatchRows`.

    Args:
        apart: `flat` stays apart until something other than a linear layer sees it.
    """

    rows: Any
    index: Any
    pooled: Any
    apart: bool

    def __init__(
        self,
        rows: Any,
        index: Any,
        pooled: Any,
        dense: Any,
        wide: Any,
        history: Mapping[str, tuple[Any, Any]],
        features: Features,
        apart: bool,
    ) -> None:
        vars(self).update(rows=rows, index=index, pooled=pooled, apart=apart)
        vars(self).update(dense=dense, wide=wide, history=history, features=features)

    @functools.cached_property
    def slots(self) -> Any:
        """As in FeatureValues; looked up when it is asked for."""
        found = Gathered.apply(self.rows, self.index)
        return torch.cat((found, self.pooled), dim=1) if self.pooled.shape[1] else found

    @property
    def flat(self) -> Any:
        """As in FeatureValues."""
        return FlatTensor(self) if self.apart else self.laid

    @functools.cached_property
    def laid(self) -> Any:
        """`flat` as a plain tensor."""
        return super().flat

    def times(self, weight: Any, bias: Any) -> Any:
        """Return the product of `flat` with a linear layer's weight, float32[units, width], and its bias added."""
        width = self.index.shape[0] * self.rows.shape[1]
        if width == weight.shape[1]:
            found = Projected.apply(self.rows, self.index, weight.t())
            return found if bias is None else found + bias
        rest = torch.nn.functional.linear(self.joined([self.pooled.flatten(1), self.dense]), weight[:, width:], bias)
        return rest + Projected.apply(self.rows, self.index, weight[:, :width].t())

    @staticmethod
    def joined(parts: Sequence[Any]) -> Any:
        there = [part for part in parts if part.shape[-1]]
        return there[0] if len(there) == 1 else torch.cat(tuple(parts), dim=-1)


class FlatTensor(torch.Tensor):  # type: ignore[misc]
    """All vectors and dense inputs of a batch side by side: a linear layer multiplies each distinct row of a slot once, and
    anything else sees the plain tensor."""

    @staticmethod
    def __new__(cls, values: TensorValues) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, (len(values.wide), values.features.width), dtype=torch.float32)
        made.of = values
        return made

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.linear and multiplies(*args, **(kwargs or {})):
            return args[0].of.times(args[1], args[2] if len(args) > 2 else (kwargs or {}).get("bias"))
        args, kwargs = tree_map_only(FlatTensor, lambda flat: vars(flat)["of"].laid, (args, kwargs or {}))
        return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise TypeError(f"{function} does not see x.flat as it is: give it x.flat.clone().")  # its gradients would be lost


def multiplies(seen: Any, weight: Any = None, bias: Any = None) -> bool:
    """Return whether a linear layer's arguments are those of `TensorValues.times`."""
    return (
        type(seen) is FlatTensor
        and type(weight) is not FlatTensor
        and type(bias) is not FlatTensor
        and weight.dtype == torch.float32
    )

"""Modules of PyTorch whose rows are in a parameter server: a forward pulls them, a backward pushes their gradients.

What a module pulls is a leaf of autograd and no parameter: optimizers do not move it, and DDP does not reduce it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ..errors import DataError, OptionError, StatementError
from ..ps.keys import Keys
from .pushes import note
from .server_table import ServerTable
from .updates import refuse_pickle

MODES = ("sum", "mean")


class Leaf(NamedTuple):
    """Rows of the distinct keys of a forward, and where each key stands among them: int64[n]."""

    rows: Any
    positions: Any


class ServerModule(nn.Module):  # type: ignore[misc]  # torch is not checked
    """What modules of a table have in common.

    Args:
        table: of a parameter server.
        slot: of the values; needed where the table has several.
        raw: values are ready-made ids of 64 bits, as slots of `ids` have them.

    Raises:
        StatementError: the table has no such slot.
    """

    def __init__(self, table: ServerTable, slot: str | None = None, raw: bool = False) -> None:
        super().__init__()
        self.table, self.slot, self.raw = table, table.slot(slot), raw

    @property
    def embedding_dim(self) -> int:
        """Floats of a row."""
        return self.table.dim

    def keys_of(self, values: Any) -> Keys:
        """Return the keys of values of any shape, in order."""
        flat = values.reshape(-1) if isinstance(values, torch.Tensor | np.ndarray) else values
        return self.table.keys(flat, self.slot, self.raw)

    def get_extra_state(self) -> dict[str, Any]:
        """Return what state_dict says of it: whose rows it reads, and none of them, which are in the server."""
        return {"table": self.table.name, "slot": self.slot, "dim": self.table.dim, "raw": self.raw}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Require the state_dict of a module of the same rows.

        Raises:
            StatementError: it is another one's.
        """
        if state != (own := self.get_extra_state()):
            raise StatementError(f"This state_dict is of a module of other rows, {state}; this one has {own}.")

    def extra_repr(self) -> str:
        """See nn.Module."""
        return f"{self.table.name}, slot={self.slot}, dim={self.table.dim}"

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)


class Embedding(ServerModule):
    """Rows of values, as nn.Embedding gives them. A value that has no row reads as a new row begins, and gets one by its first
    push. In eval, and under no_grad, it reads alone."""

    def forward(self, values: Any) -> Any:
        """Return float32[*shape, dim] of values of any shape: a tensor or array of integers, or an array of strings."""
        leaf = looked_up(self.table, self.keys_of(values), self.table.number(self.slot), self.training)
        shape = values.shape if isinstance(values, torch.Tensor | np.ndarray) else (len(values),)
        return functional.embedding(leaf.positions, leaf.rows).reshape(*shape, self.table.dim)


class EmbeddingBag(ServerModule):
    """Sums or means of rows of bags of values, as nn.EmbeddingBag gives them.

    Args:
        mode: "sum" or "mean".
        include_last_offset: offsets have a last one, the number of values.

    Raises:
        OptionError: another mode.
    """

    def __init__(
        self,
        table: ServerTable,
        slot: str | None = None,
        mode: str = "sum",
        raw: bool = False,
        include_last_offset: bool = False,
    ) -> None:
        super().__init__(table, slot, raw)
        if mode not in MODES:
            raise OptionError(f"xpsql.torch.EmbeddingBag has mode 'sum' or 'mean', got {mode!r}.")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, values: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Return float32[bags, dim].

        Args:
            values: [bags, n], or all bags' values one after the other with `offsets`, where each bag begins.
            per_sample_weights: of values, in their shape; sum only.
        """
        leaf = looked_up(self.table, self.keys_of(values), self.table.number(self.slot), self.training)
        return self.bags(leaf.rows, leaf.positions, values, offsets, per_sample_weights)

    def starts(self, values: Any, offsets: Any) -> Any:
        """Return where each bag begins among values, int64[bags].

        Raises:
            DataError: offsets are missing, or beside values that need none.
        """
        shape: tuple[int, ...] = getattr(values, "shape", (len(values),))
        if (len(shape) == 1) != (offsets is not None):
            two = "values of two dimensions are bags already; leave offsets out"
            need = "values in one dimension need offsets" if len(shape) == 1 else two
            raise DataError(f"In EmbeddingBag of table {self.table.name}, {need}.")
        if offsets is None:
            return torch.arange(shape[0], dtype=torch.int64) * shape[1]
        found = torch.as_tensor(offsets, dtype=torch.int64)
        return found[:-1] if self.include_last_offset else found

    def bags(self, rows: Any, positions: Any, values: Any, offsets: Any, weights: Any) -> Any:
        """Return the bags of rows at positions; see starts."""
        starts = self.starts(values, offsets)
        flat = None if weights is None else weights.reshape(-1)
        return functional.embedding_bag(positions, rows, starts, mode=self.mode, per_sample_weights=flat)


def pooled(bags: Sequence[EmbeddingBag], inputs: Sequence[Any]) -> list[Any]:
    """Return what each of several bags gives of its input, by one pull of each table.

    Args:
        inputs: for each, values [bags, n], or (values, offsets), or (values, offsets, per_sample_weights).

    Raises:
        DataError: there are not as many inputs as bags.
    """
    if len(bags) != len(inputs):
        raise DataError(f"pooled needs an input for each bag: got {len(bags)} bags and {len(inputs)} inputs.")
    given = [(*one, None, None)[:3] if isinstance(one, tuple) else (one, None, None) for one in inputs]
    outputs: list[Any] = [None] * len(bags)
    for table in dict.fromkeys(bag.table for bag in bags):
        own = [at for at, bag in enumerate(bags) if bag.table is table]
        keys = {at: bags[at].keys_of(given[at][0]) for at in own}
        slots = np.repeat([table.number(bags[at].slot) for at in own], [len(keys[at]) for at in own]).astype(np.uint16)
        leaf = looked_up(table, np.concatenate(list(keys.values())), slots, any(bags[at].training for at in own))
        positions = dict(zip(own, leaf.positions.split([len(keys[at]) for at in own]), strict=True))
        plain = [at for at in own if given[at][2] is None]
        for mode in MODES:
            same = [at for at in plain if bags[at].mode == mode]
            found = at_once(leaf.rows, [(positions[at], bags[at].starts(*given[at][:2])) for at in same], mode)
            outputs = [dict(zip(same, found, strict=True)).get(at, one) for at, one in enumerate(outputs)]
        for at in set(own) - set(plain):
            outputs[at] = bags[at].bags(leaf.rows, positions[at], *given[at])
    return outputs


def needed(bags: Sequence[ServerModule], inputs: Sequence[Any]) -> dict[str, Keys]:
    """Return the keys of each table that a forward of `pooled`, or of one module, pulls: for ps.ahead, and for `ahead` of
    ps.batches.

    Args:
        inputs: values of each; also (values, offsets), of which the values count.
    """
    values = [one[0] if isinstance(one, tuple) else one for one in inputs]
    keys: dict[str, list[Keys]] = {}
    for bag, own in zip(bags, values, strict=True):
        keys.setdefault(bag.table.name, []).append(bag.keys_of(own))
    return {table: np.concatenate(parts) for table, parts in keys.items()}


def at_once(rows: Any, parts: Sequence[tuple[Any, Any]], mode: str) -> list[Any]:
    """Return the bags of several inputs by one call, whose backward makes one gradient of all rows.

    Args:
        parts: of each input the positions of its values, int64[n], and where its bags begin, int64[bags].
    """
    if not parts:
        return []
    firsts = np.cumsum([0, *(len(positions) for positions, _ in parts[:-1])]).tolist()
    offsets = torch.cat([starts + first for (_, starts), first in zip(parts, firsts, strict=True)])
    whole = functional.embedding_bag(torch.cat([positions for positions, _ in parts]), rows, offsets, mode=mode)
    return list(whole.split([len(starts) for _, starts in parts]))


def looked_up(table: ServerTable, keys: Keys, slots: int | NDArray[np.uint16], learns: bool) -> Leaf:
    """Pull the rows of keys, whose gradients a backward pushes.

    Args:
        slots: the number of each key's slot, or that of all.
    """
    found = table.pulled(keys)
    whole = found.rows if len(found.rows) else np.zeros((1, table.dim), np.float32)
    rows = torch.from_numpy(whole.copy())  # the server's memory is used again
    if learns and torch.is_grad_enabled() and len(keys):
        rows.requires_grad_()
        seen = found._replace(rows=found.rows[:0].copy())  # a hook outlives the server, whose memory it would hold
        rows.register_hook(lambda gradient: note(table, seen, slots, gradient))
    return Leaf(rows, torch.from_numpy(found.positions.astype(np.int64)))


def saved(module: Any, path: str | Path | None = None) -> Path:
    """Write the dense part of a network, its state_dict, and return the file: for `files` of checkpoint and commit.

    Args:
        path: of the file; None: a temporary one.
    """
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="xpsql-torch-")) / "state.pt"
    torch.save(module.state_dict(), path)
    return Path(path)

"""A log, and steps on a device, alone, with their batch's way there, and with rows; and the same network in PyTorch.

python -m benchmarks.device_steps DIM BATCH [DIM BATCH ...]     # PyTorch's figures, as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Figure

SLOTS, VALUES, ELEMENTS = 39, 20_000, 20
HIDDEN = (128, 64)  # of xnn by default
TORCH_ROWS = 4_000_000


def made_log(path: Path, rows: int, seed: int) -> Path:
    """Write a log of numbered categories, two labels and a history, whose labels follow some of them."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    score = np.zeros(rows)
    for number in range(SLOTS):
        drawn = (VALUES ** random.random(rows)).astype(np.int64) * 7919 % (50 + 500 * number)
        columns[f"c{number}"] = drawn
        score += ((drawn * 2654435761 + number * 97) % 1000 / 1000 - 0.5) * (0.6 if number % 3 == 0 else 0.0)
    lengths = random.integers(0, ELEMENTS, rows)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    seen = random.integers(0, 50, ends[-1]).astype(np.int64) * 7919 % 50
    columns["seen"] = pa.ListArray.from_arrays(pa.array(ends), pa.array(seen))
    chance = 1 / (1 + np.exp(1.2 - score))
    columns["label"] = (random.random(rows) < chance).astype(np.int64)
    columns["late"] = columns["label"] * (random.random(rows) < 0.5)
    pq.write_table(pa.table(columns), path, row_group_size=65_536)
    return path


def made_events(path: Path, rows: int, seed: int) -> Path:
    """Write what users took in order: each walks among 5,000 items in steps of its own."""
    random = np.random.default_rng(seed)
    user, step = np.arange(rows) // 100, np.arange(rows) % 100
    start, stride = random.integers(0, 5_000, rows // 100 + 1), random.integers(1, 5, rows // 100 + 1)
    item = (start[user] + stride[user] * step) % 5_000
    pq.write_table(pa.table({"user": user, "ts": 1_700_000_000 + 60 * step, "item": item}), path, row_group_size=65_536)
    return path


def rows_of(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def told(what: str, figures: Iterator[Figure]) -> Iterator[Figure]:
    """Yield figures, and a miss in the place of those that fail: the others are still measured."""
    try:
        yield from figures
    except Exception as error:
        print(what, type(error).__name__, str(error)[:1000], flush=True)
        yield Figure(f"{what}: failed", 1.0, "", "<= 0")


def has_card() -> bool:
    """Return whether JAX sees a GPU."""
    from xpsql.platform.training.compiled import prepare_jax

    prepare_jax()
    import jax

    return any(one.platform == "gpu" for one in jax.local_devices())


def timed(function: Callable[..., Any], *arguments: Any, repeats: int = 10) -> float:
    """Return the seconds of a call, the median after two."""
    import jax

    spent = []
    for _ in range(repeats + 2):
        begun = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        spent.append(time.perf_counter() - begun)
    return float(np.median(spent[2:]))


def shard_of(recipe: Any, place: Any) -> Any:
    from xpsql.platform.ps.lifecycle_table import tables_of
    from xpsql.platform.ps.rows.native import native_rows
    from xpsql.platform.ps.shard import Shard
    from xpsql.platform.training.devices import dense_device, device_tables

    tables = tables_of(recipe.programs, native_rows, device_tables(place))
    return Shard(tables, recipe.dense.part(0, 1, dense_device(place)), str)


def place_of(rows: bool) -> Any:
    from xpsql.platform.training.devices import DevicePlace

    return DevicePlace("gpu" if has_card() else "cpu", rows, False)


def tables_of_vectors(operator: str, dim: int, most_bytes: int | None = None, rows: int = 1 << 16) -> list[Any]:
    """Return a table of vectors on the device, and one of the native store."""
    from xpsql.platform import parts
    from xpsql.platform.operators.base import TableSpec
    from xpsql.platform.operators.chains import chain
    from xpsql.platform.ps.compiled.row_programs import RowPrograms
    from xpsql.platform.ps.compiled.table_programs import Programs
    from xpsql.platform.ps.device_table import DeviceTable
    from xpsql.platform.ps.rows.native import native_rows
    from xpsql.platform.ps.table import Table

    spec, part = TableSpec("vectors", dim), parts.OPERATOR.find(operator, None)
    programs = RowPrograms([Programs(spec, chain(part.make(part.options(), spec)), 7)])
    return [DeviceTable(programs, place_of(True).found, most_bytes, None, rows), Table(programs, native_rows)]


def touched(keys: np.ndarray, examples: int) -> Any:
    from xpsql.platform.ps.messages import Touched

    ones = np.ones(len(keys), np.uint32)
    return Touched(keys, ones.astype(np.uint16), ones, ones, 0, examples=examples)


def steps(name: str, dim: int, batch: int) -> Iterator[Figure]:
    """Yield the rows a second of a step, and of a step with its pull and push."""
    import jax

    from xpsql.algorithms.base import Inputs, Layout
    from xpsql.algorithms.blocks.bags import BagRows
    from xpsql.algorithms.blocks.histories import HISTORIES, History, HistorySlots
    from xpsql.platform import parts
    from xpsql.platform.ps.messages import Push
    from xpsql.platform.training.online.on_device import step_for
    from xpsql.platform.training.recipe import make

    slots = tuple(f"c{number}" for number in range(SLOTS))
    layout = Layout(slots).having(HISTORIES, [HistorySlots("history", ("seen",))] if name == "din" else [])
    part = parts.ALGORITHM.find(name, None)
    options = part.options(dim=dim, **({"target": ("c0",), "history": ("seen",)} if name == "din" else {}))
    place = place_of(True)
    recipe = make(part, options, layout, False, (), (), 7, False)._replace(place=place)
    random, size = np.random.default_rng(1), 4 * batch
    keys = random.integers(0, 2**64, size - 1, np.uint64)
    label = (random.random((1, batch)) < 0.2).astype(np.float32)
    none, floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
    bags = BagRows(none, none, none, floats)
    codes = random.integers(0, size - 1, (SLOTS + 1, batch)).astype(np.int32)
    codes[-1] = 0
    histories: tuple[Any, ...] = ()
    if name == "din":
        histories = (
            History(random.integers(0, 50, (1, batch, ELEMENTS)).astype(np.int32), random.random((batch, ELEMENTS)) < 0.5),
        )
    rest = {"dense": np.zeros((batch, 0), np.float32), "label": label, "weight": np.ones(batch, np.float32)}
    inputs: Any = Inputs(scalar=codes, bags=bags, dense_index=none, **rest).having(HISTORIES, histories)
    step, shard = step_for(recipe), shard_of(recipe, place)

    def whole() -> Any:
        pulled = shard.pull(keys, size)
        learned = step({**pulled.weights, **pulled.dense}, inputs, None)
        shard.push(Push(touched(keys, batch), pulled.updates, learned.gradients, pulled.weights, learned.dense))
        return learned

    what = f"{name}, dim {dim}, batch {batch:,}"
    seconds = timed(whole)
    yield Figure(f"{what}: pull, step and push on the device", batch / seconds, "rows/s")
    pulled = shard.pull(keys, size)
    parameters = {**pulled.weights, **pulled.dense}
    yield Figure(f"{what}: step, batch brought", batch / timed(step, parameters, inputs, None), "rows/s")
    there = jax.device_put(inputs, place.found)
    yield Figure(
        f"{what}: step alone",
        batch / timed(step, parameters, there, None),
        "rows/s",
        ">= 10000000" if batch > 60_000 and has_card() else "",
    )


def torch_figures(sizes: Sequence[tuple[int, int]]) -> Iterator[Figure]:
    """Run PyTorch, for some (dim, batch), in a process of its own, which finds the card's memory free of JAX's."""
    command = [sys.executable, "-m", "benchmarks.device_steps", *(str(one) for size in sizes for one in size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        yield from (Figure(*json.loads(line)) for line in process.stdout if line.startswith("["))
        print(process.stderr.read()[-1000:], end="", flush=True)


def torch_steps(dim: int, batch: int) -> Iterator[Figure]:
    """Yield the rows a second of xnn's network in PyTorch, sparse gradients of one large EmbeddingBag and dense ones."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    codes = torch.randint(TORCH_ROWS, (batch, SLOTS), device=device)
    offsets = torch.arange(0, batch * SLOTS, 1, device=device)
    label = (torch.rand(batch, device=device) < 0.2).float()
    for sparse, fitting in ((True, "SparseAdam"), (True, "Adagrad"), (False, "Adam")):
        bag = torch.nn.EmbeddingBag(TORCH_ROWS, dim, mode="sum", sparse=sparse, device=device)
        wide = torch.nn.EmbeddingBag(TORCH_ROWS, 1, mode="sum", sparse=sparse, device=device)
        sizes, layers = (SLOTS * dim, *HIDDEN), []
        for inputs, units in pairwise(sizes):
            layers += [torch.nn.Linear(inputs, units, device=device), torch.nn.ReLU()]
        network = torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN[-1], 1, device=device))
        embeddings = getattr(torch.optim, fitting)([*bag.parameters(), *wide.parameters()], lr=0.01)
        dense = torch.optim.Adam(network.parameters(), lr=0.001)

        def step(bag: Any = bag, wide: Any = wide, network: Any = network, optimizers: Any = (embeddings, dense)) -> None:
            vectors = bag(codes.reshape(-1), offsets).reshape(batch, SLOTS * dim)
            scores = network(vectors)[:, 0] + wide(codes).reshape(-1)
            torch.nn.functional.binary_cross_entropy_with_logits(scores, label).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

        for _ in range(3):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        repeats, begun = 10, time.perf_counter()
        for _ in range(repeats):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - begun) / repeats
        what = f"xnn, dim {dim}, batch {batch:,}: PyTorch's EmbeddingBag, {'sparse' if sparse else 'dense'}, {fitting}"
        yield Figure(what, batch / seconds, "rows/s", peer="PyTorch")


if __name__ == "__main__":
    for place in range(1, len(sys.argv), 2):
        for figure in torch_steps(int(sys.argv[place]), int(sys.argv[place + 1])):
            print(json.dumps(figure), flush=True)

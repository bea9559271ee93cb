"""Networks over histories: what they find on KuaiRand after each of two passes, and their speed beside DeepCTR-Torch's.

Vectors have 16 elements, layers 128 and 64 units, attention 64 and 32. The speed is of whole processes on one core that learn
six times the rows of one pass in batches of 256. Without a folder of published logs rows are made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Figure, Run, peers, ratio, spread
from benchmarks.process import Measured, Xpsql, call, child, connect, cores, cpu, in_turns, installed, measure
from benchmarks.published import LONGEST, Split, cut, kuairand

SIZES = "dim = 16, hidden = (128, 64), vector_learning_rate = 0.1"
HISTORY = f"target = (video), history = (seen), length = {LONGEST}, {SIZES}"
MODELS = {
    "xnn, sum of the history": f"xnn ({SIZES})",
    "xnn, mean of the history": f"xnn (pooling = 'mean', {SIZES})",
    "wide_deep, netvlad": f"wide_deep (pooled = (seen), pooled_length = {LONGEST}, clusters = 8, {SIZES})",
    "din": f"din ({HISTORY})",
    "dien (auxiliary = 0)": f"dien (auxiliary = 0, {HISTORY})",
    "dien": f"dien ({HISTORY})",
}
KINDS = {"din": "DIN", "dien (auxiliary = 0)": "DIEN"}
PEER, TIMES, PASSES = "DeepCTR-Torch", 6, 2
TARGETS: dict[str, str] = {}
LEARN = (
    "TRAIN OR REPLACE MODEL m USING {} LABEL label WITH (share = (seen AS video), workers = 1{}) AS SELECT * FROM parquet.`{}`"
)


def figures(run: Run) -> Iterator[Figure]:
    name, split = ("made", made(2_000)) if run.data is None else ("KuaiRand", kuairand(run.data))
    train, test = run.folder / "train.parquet", run.folder / "test.parquet"
    for table, path in zip(split, (train, test), strict=True):
        pq.write_table(table, path, row_group_size=1 << 16)
    for what, using in list(MODELS.items())[:: run.size(3, 1)]:
        runs = [child(learned, using, seed, run.folder)[0][0] for seed in range(1, run.size(1, 5) + 1)]
        yield from of_passes(f"{name}, {what}", runs, "")
    if installed("deepctr_torch"):
        for kind in KINDS.values():
            runs = [child(deepctr, kind, train, test, seed)[0][0] for seed in range(1, run.size(1, 3) + 1)]
            yield from of_passes(f"{name}, {PEER}'s {kind}", runs, PEER)
    many = run.folder / "many.parquet"
    pq.write_table(pa.concat_tables([split.train] * TIMES), many, row_group_size=1 << 16)
    for what, kind in KINDS.items():
        statement = LEARN.format(MODELS[what], ", batch_size = 256", many)
        work: dict[str, Callable[[], Measured]] = {what: partial(Xpsql(run.folder).run, statement)}
        if installed("deepctr_torch"):
            work[kind] = partial(measure, call(deepctr, kind, many, None, 1))
        with cores(1):
            found = in_turns(run.rounds, work, [what])
        for label, runs in found.items():
            peer = PEER if label == kind else ""
            yield spread(f"{PEER}'s {kind}: CPU" if peer else f"{what}: CPU", cpu(runs), "s", peer)
        if kind in found:
            yield ratio(f"{what}: times {PEER}'s {kind}, CPU", cpu(found[kind]), cpu(found[what]), PEER)


def of_passes(what: str, runs: list[dict[str, list[float]]], peer: str) -> Iterator[Figure]:
    for number in range(PASSES):
        yield spread(f"{what}: test AUC after pass {number + 1}", [one["auc"][number] for one in runs], "", peer)
    yield spread(f"{what}: CPU of both passes", [one["seconds"][0] for one in runs], "s", peer)


def made(rows: int) -> Split:
    """Return rows of users who like the videos of the group that they have seen most."""
    random = np.random.default_rng(1)
    taste, video = random.integers(0, 10, rows), random.integers(0, 500, rows)
    seen = [(random.integers(0, 50, n % 20) * 10 + taste[n]).astype("U").tolist() for n in range(rows)]
    label = (random.random(rows) < np.where(video % 10 == taste, 0.8, 0.2)).astype(np.int8)
    columns = {"label": label, "user": random.integers(0, 100, rows), "video": video.astype("U")}
    return cut(pa.table({**columns, "seen": pa.array(seen, pa.list_(pa.string()))}), 4 / 5)


def learned(using: str, seed: int, folder: str) -> Iterator[dict[str, list[float]]]:
    """Train a model in two passes; yield its test AUC after each."""
    train, test = (Path(folder) / f"{name}.parquet" for name in ("train", "test"))
    found, began = [], time.process_time()
    with connect(Path(folder) / "histories") as session:
        session.sql(LEARN.format(using, f", seed = {seed}", train))
        for number in range(PASSES):
            if number:
                session.sql(f"CONTINUE MODEL m AS SELECT * FROM parquet.`{train}`")
            found += (
                session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{test}`))")
                .arrow()["auc"]
                .to_pylist()
            )
    yield {"auc": found, "seconds": [time.process_time() - began]}


def deepctr(kind: str, train: str, test: str | None, seed: int) -> Iterator[dict[str, list[float]]]:
    """Train DeepCTR-Torch's DIN or DIEN with Adam in batches of 256; without test rows one pass that predicts nothing."""
    import torch
    from deepctr_torch import models
    from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    began, tables = time.process_time(), [pq.read_table(path) for path in (train, test) if path]
    sizes, inputs = encoded(tables)
    columns = [SparseFeat(name, size, embedding_dim=16) for name, size in sizes.items()]
    like = SparseFeat("hist_video", sizes["video"], embedding_dim=16, embedding_name="video")
    columns.append(VarLenSparseFeat(like, LONGEST, length_name="length"))
    attention = (
        {"att_hidden_size": (64, 32), "att_weight_normalization": True} if kind == "DIN" else {"att_hidden_units": (64, 32)}
    )
    model = getattr(getattr(models, kind.lower()), kind)(
        columns, ["video"], dnn_hidden_units=(128, 64), device="cpu", **attention
    )
    model.compile("adam", "binary_crossentropy")
    found = []
    for _ in range(PASSES if test else 1):
        model.fit(inputs[0], tables[0]["label"].to_numpy(), batch_size=256, epochs=1, verbose=0)
        if test:
            found.append(peers.auc(tables[1]["label"].to_numpy() == 1, model.predict(inputs[1], 4096)[:, 0]))
    yield {"auc": found, "seconds": [time.process_time() - began]}


def encoded(tables: list[pa.Table]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Return how many values each column has, and columns as numbers from 1 on, histories padded by 0."""
    inputs: list[dict[str, Any]] = [{} for _ in tables]
    sizes = {}
    for name in (name for name in tables[0].column_names if name not in ("label", "seen")):
        words = {value for table in tables for value in table[name].to_pylist()}
        if name == "video":
            words |= {value for table in tables for row in table["seen"].to_pylist() for value in row}
        number = {word: place for place, word in enumerate(sorted(words), 1)}
        sizes[name] = len(number) + 1
        for table, own in zip(tables, inputs, strict=True):
            own[name] = np.array([number[value] for value in table[name].to_pylist()])
            if name == "video":
                rows = table["seen"].to_pylist()
                own["hist_video"] = np.array([[*map(number.get, row), *[0] * (LONGEST - len(row))] for row in rows])
                own["length"] = np.array([max(1, len(row)) for row in rows])
    return sizes, inputs

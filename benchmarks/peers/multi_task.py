"""torch-rechub's ESMM and MMOE on KuaiRand's clicks and long views: python -m benchmarks.peers.multi_task RESULTS SEEDS.

RESULTS lies beside `kuairand-tasks-{train,test}.parquet`, as `benchmarks.interests` writes them: user, video, half_hour, click,
long. Needs PyTorch, torch-rechub 0.9 and scikit-learn. Vectors of 8 elements, towers of 128-64, experts of 64-32, Adam with
0.001, batches of 256; the test AUC of `long` after each of three epochs.

`python -m benchmarks.peers.multi_task PARQUET speed KIND BATCH` learns one epoch of a file and predicts nothing: for the CPU
seconds of a whole process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

SLOTS = ("user", "video", "half_hour")


def measure(kind: str, seed: int, paths: list[Path], epochs: int = 3, batch: int = 256) -> dict[str, object]:
    import torch
    from sklearn.metrics import roc_auc_score
    from torch_rechub.basic.features import SparseFeature
    from torch_rechub.models.multi_task import ESMM, MMOE

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    tables, sizes, inputs = [pq.read_table(path) for path in paths], {}, [{} for _ in paths]
    for name in SLOTS:
        words = sorted({value for table in tables for value in table[name].to_pylist()})
        number = {word: at for at, word in enumerate(words)}
        sizes[name] = len(words)
        for table, own in zip(tables, inputs, strict=True):
            own[name] = torch.tensor([number[value] for value in table[name].to_pylist()])
    features = [SparseFeature(name, sizes[name], embed_dim=8) for name in SLOTS]
    tower = {"dims": [128, 64]}
    model = (
        ESMM([features[0]], features[1:], tower, tower)
        if kind == "ESMM"
        else MMOE(features, ["classification"] * 2, 4, {"dims": [64, 32]}, [tower, tower])
    )
    optimizer, found, began = torch.optim.Adam(model.parameters(), 1e-3), [], time.process_time()
    click, long = (torch.tensor(tables[0][name].to_numpy().copy(), dtype=torch.float32) for name in ("click", "long"))
    wanted = {"ESMM": [(1, click), (2, long)], "MMOE": [(0, click), (1, long)]}[kind]  # ESMM gives cvr, ctr, ctcvr
    for _ in range(epochs):
        model.train()
        for start in range(0, len(click), batch):
            part = slice(start, start + batch)
            said = model({name: values[part] for name, values in inputs[0].items()})
            loss = sum(torch.nn.functional.binary_cross_entropy(said[:, at], label[part]) for at, label in wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if len(tables) == 1:
            continue
        model.eval()
        with torch.no_grad():
            found.append(float(roc_auc_score(tables[1]["long"].to_numpy(), model(inputs[1])[:, wanted[1][0]].numpy())))
    return {
        "log": "kuairand-tasks",
        "model": f"torch-rechub {kind}",
        "seed": seed,
        "auc": found,
        "seconds": time.process_time() - began,
    }


def main(results: Path, seeds: int) -> None:
    for seed in range(1, seeds + 1):
        for kind in ("ESMM", "MMOE"):
            line = json.dumps(
                measure(kind, seed, [results.with_name(f"kuairand-tasks-{name}.parquet") for name in ("train", "test")])
            )
            with results.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    if sys.argv[2] == "speed":
        measure(sys.argv[3], 1, [Path(sys.argv[1])], 1, int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]))

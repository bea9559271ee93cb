"""The figures of other tools, beside ours of the same run."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from benchmarks.figures import Figure, Note
from benchmarks.process import Measured, cores, measure, middle
from benchmarks.scripts import ALGORITHM, Xpsql


class Trained(NamedTuple):
    """What a tool took from its start to the trained model, and the AUC of the test rows."""

    seconds: float
    cpu_seconds: float
    auc: float


class Peer(NamedTuple):
    """Another tool.

    Attributes:
        name: for readers.
        needs: a module or a program that must be there.
        measured: (log, scratch folder) -> what it took.
        ours: the algorithm that it is compared with, as it is written.
        times: how many times as fast ours should be.
    """

    name: str
    needs: str
    measured: Callable[[Path, Path], Trained]
    ours: str
    times: float

    @property
    def missing(self) -> str | None:
        """Why it cannot be run here; None where it can."""
        return lacking(self.needs)


def lacking(name: str) -> str | None:
    """Return why a module or a program cannot be run here; None where it can."""
    if shutil.which(name) is not None:
        return None
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def torch_like(module: str, dim: int) -> Callable[[Path, Path], Trained]:
    """Return how a script of this folder is measured."""

    def measured(log: Path, folder: Path) -> Trained:
        rows = (str(log / f"{name}.parquet") for name in ("train", "test"))
        command = [sys.executable, "-m", f"benchmarks.peers.{module}", *rows, str(dim), str(time.monotonic())]
        reported = json.loads(measure(command).output.splitlines()[-1])
        return Trained(reported["seconds"], reported["cpu_seconds"], reported["auc"])

    return measured


def alphafm(log: Path, folder: Path) -> Trained:
    """Measure alphaFM's fm_train from text."""
    train, test = (text(log, name, "alphafm", folder) for name in ("train", "test"))
    options = "-dim 1,1,8 -core 1 -init_stdev 0.01 -w_alpha 0.1 -w_l1 0 -w_l2 0 -v_alpha 0.02 -v_l1 0 -v_l2 0 -mf bin"
    model, found = folder / "alphafm.model", folder / "alphafm.predictions"
    done = measure(["sh", "-c", f"fm_train {options} -m {model} < {train}"])
    measure(["sh", "-c", f"fm_predict -dim 8 -core 1 -mf bin -m {model} -out {found} < {test}"])
    measure(["sh", "-c", f"cut -d' ' -f2 {found} > {found}.scores"])
    return Trained(done.seconds, done.cpu_seconds, auc_of(log, Path(f"{found}.scores")))


def xlearn(log: Path, folder: Path) -> Trained:
    """Measure xLearn's factorization machine from text with ready-made ids."""
    train, test = (text(log, name, "libsvm", folder) for name in ("train", "test"))
    model, found = folder / "xlearn.model", folder / "xlearn.predictions"
    options = ["-s", "1", "-p", "adagrad", "-k", "8", "-e", "1", "-nthread", "1", "--dis-es", "--no-bin", "-m", model]
    user = ["env", "USER=xpsql"]  # without a user it ends at once
    done = measure([*user, "xlearn_train", train, *options])
    measure([*user, "xlearn_predict", test, model, "-o", found, "-nthread", "1"])
    return Trained(done.seconds, done.cpu_seconds, auc_of(log, found))


def text(log: Path, name: str, form: str, folder: Path) -> Path:
    """Return a log as text, written once."""
    target = folder / f"{name}.{form}"
    if not target.exists():
        measure([sys.executable, "-m", "benchmarks.peers.texts", log / f"{name}.parquet", form, target])
    return target


def auc_of(log: Path, predictions: Path) -> float:
    return float(measure([sys.executable, "-m", "benchmarks.auc", log / "test.parquet", predictions]).output)


PEERS = (
    Peer("PyTorch, dim 16", "torch", torch_like("pytorch", 16), "xnn (dim = 16)", 1.5),
    Peer("PyTorch, dim 8", "torch", torch_like("pytorch", 8), "xnn", 1.45),
    Peer("TorchRec's fused embeddings, dim 16", "fbgemm_gpu", torch_like("torchrec", 16), "xnn (dim = 16)", 1.2),
    Peer("DeepCTR-Torch, Wide & Deep, dim 8", "deepctr_torch", torch_like("deepctr", 8), "xnn", 3.0),
    Peer("alphaFM, dim 8", "fm_train", alphafm, "fm", 2.5),
    Peer("xLearn's FM, dim 8", "xlearn_train", xlearn, "fm", 1.0),
)


def towers_beside(what: str, rows: tuple[str, str], ours: Measured, loop: float, rounds: int) -> Iterator[Figure | Note]:
    """Compare our two towers with PyTorch's, where it is installed.

    Args:
        rows: the log and the size of batches.
        loop: seconds of ours for learning alone.
    """
    if (missing := lacking("torch")) is not None:
        yield Note(f"{what}: not installed ({missing})")
        return
    with cores(1):
        command = [sys.executable, "-m", "benchmarks.peers.two_towers", *rows]
        runs = [json.loads(measure([*command, str(time.monotonic())]).output.splitlines()[-1]) for _ in range(rounds)]
    seconds, cpu, learning = (statistics.median(run[name] for run in runs) for name in ("seconds", "cpu_seconds", "learning"))
    yield Figure(what, seconds / ours.seconds, "x", 3.0)
    yield Figure(f"{what}, CPU", cpu / ours.cpu_seconds, "x", 3.0)
    yield Figure(f"{what}, training alone", learning / loop, "x", 3.0)


def beside(ours: Mapping[str, Measured], rows: int, log: Path, folder: Path, rounds: int) -> Iterator[Figure | Note]:
    """Measure every tool that is installed, and compare.

    Args:
        ours: algorithm -> what it took in this run.
        rows: of the training log.
        folder: for texts and models.
    """
    for peer in PEERS:
        if (missing := peer.missing) is not None:
            yield Note(f"{peer.name}: not installed ({missing})")
            continue
        with cores(1):
            runs = [peer.measured(log, folder) for _ in range(rounds)]
        seconds, used = (statistics.median(run[i] for run in runs) for i in (0, 1))
        yield Figure(f"{peer.name}: one core", rows / seconds, "rows/s")
        yield Figure(f"{peer.name}: one core, CPU", rows / used, "rows/s")
        yield Figure(f"{peer.name}: test AUC", runs[-1].auc, "")
        yield Figure(f"{peer.ours}: times {peer.name}", seconds / ours[peer.ours].seconds, "x", peer.times)
        yield Figure(f"{peer.ours}: times {peer.name}, CPU", used / ours[peer.ours].cpu_seconds, "x", peer.times)


def network_beside(xpsql: Xpsql, log: Path, folder: Path, rounds: int) -> Iterator[Figure | Note]:
    """Compare a network of the user's in PyTorch with PyTorch alone, whole processes on one core, in turns."""
    what = "network in PyTorch, dim 16"
    if (missing := lacking("torch")) is not None:
        yield Note(f"{what}: not installed ({missing})")
        return
    written, data = f"network (file = '{Path(__file__).with_name('mlp.py')}', class = 'Mlp', dim = 16)", log / "train.parquet"
    statement = ALGORITHM.format(algorithm=written, data=data).replace(" AS SELECT", " WITH (batch_size = 1024) AS SELECT")
    with cores(1):
        xpsql.run(statement)  # not counted: compiles what later processes find
        turns = [(xpsql.run(statement), torch_like("pytorch", 16)(log, folder)) for _ in range(rounds)]
    ours, theirs = middle([own for own, _ in turns]), [other for _, other in turns]
    yield Figure(f"{what}: one core, CPU", pq.read_metadata(data).num_rows / ours.cpu_seconds, "rows/s")
    yield Figure(f"{what}: times PyTorch", statistics.median(one.seconds for one in theirs) / ours.seconds, "x", 1.5)
    yield Figure(
        f"{what}: times PyTorch, CPU", statistics.median(one.cpu_seconds for one in theirs) / ours.cpu_seconds, "x", 1.5
    )

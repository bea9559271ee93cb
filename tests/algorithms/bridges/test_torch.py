"""A module of PyTorch in a training: the same on both engines, with several workers, and what it raises at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.algorithms.bridges.test_network import GALLERY, log
from xpsql.algorithms.bridges.features import Features
from xpsql.algorithms.bridges.pytorch import explored, values_of
from xpsql.platform.progress import SilentReporter

torch = pytest.importorskip("torch")

from xpsql.algorithms.bridges.tensors import FlatTensor  # noqa: E402 - which needs it

USING = (
    f"USING network (file = '{GALLERY / 'dcn_torch.py'}', class = 'Dcn', hidden = (16), dim = 4, dropout = 0.1, norm = true)"
)


def learned(engine: str | SparkSession, folder: Path, workers: int) -> list[float]:
    with xpsql.connect(folder, engine, SilentReporter()) as session:
        pq.write_table(log(), folder.with_suffix(".parquet"))
        source = f"parquet.`{folder.with_suffix('.parquet')}`"
        session.sql(
            f"TRAIN MODEL m {USING} LABEL click IGNORE (buy) WITH (workers = {workers}, passes = 2, batch_size = 100) AS "
            f"SELECT * FROM {source}"
        )
        session.sql(f"CONTINUE MODEL m AS SELECT * FROM {source}")
        found = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL m, (SELECT * FROM {source})) ORDER BY price").arrow()
        values: list[float] = found["predicted_click"].to_pylist()
        return values


def test_both_engines_give_the_same_model(spark: SparkSession, tmp_path: Path) -> None:
    here, there = learned("duckdb", tmp_path / "a", 1), learned(spark, tmp_path / "b", 1)
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert np.std(here) > 0


def test_workers_share_a_module_without_meeting(tmp_path: Path) -> None:
    assert np.isfinite(learned("duckdb", tmp_path / "a", 3)).all()


def test_no_graph_is_made_of_a_module(tmp_path: Path) -> None:
    learned("duckdb", tmp_path / "a", 1)
    with (
        xpsql.connect(tmp_path / "a", "duckdb", SilentReporter()) as session,
        pytest.raises(xpsql.StatementError, match=r"FORMAT onnx needs functions of JAX.* runs in PyTorch"),
    ):
        session.sql(f"EXPORT MODEL m TO '{tmp_path}/out' FORMAT onnx")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        ("self.out(x.slots)", r"net\.py, line 12: RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("self.out(x.flat), x.wide", "must return a tensor, got tuple"),
        ("self.out(x.flat).expand(-1, 3)", r"must return float\[batch\] or float\[batch, 1\], got float32\[3, 3\]"),
        ("x['itm']", r"net\.py, line 12: KeyError: no slot or dense input 'itm'"),
    ],
)
def test_a_fault_is_reported_at_its_line_before_anything_starts(
    session: xpsql.Session, tmp_path: Path, forward: str, message: str
) -> None:
    text = f"""
from torch import nn


class Ranker(nn.Module):
    def __init__(self, features, *, double: bool = False):
        super().__init__()
        self.out = nn.Linear(features.width, 1)
        self.out = self.out.double() if double else self.out

    def forward(self, x):
        return {forward}
"""
    path = tmp_path / "net.py"
    path.write_text(text, encoding="utf-8")
    using = f"USING network (file = '{path}', class = 'Ranker')"
    session.sql("CREATE TABLE log AS SELECT 'a' AS item, 1.5 AS price, 1 AS click")
    with pytest.raises(xpsql.StatementError, match=message):
        session.sql(f"TRAIN MODEL m {using} LABEL click AS SELECT * FROM log")
    with pytest.raises(xpsql.StatementError, match=r"parameter out\.weight must be float32, got torch\.float64"):
        session.sql(f"TRAIN MODEL m {using.replace(')', ', double = true)')} LABEL click AS SELECT * FROM log")


FEATURES = Features(("a", "b", "tags"), (("price", 1), ("size", 2)), (), (), ("click",), 4)


def inputs(features: Features = FEATURES, bags: int = 1) -> tuple[list[Any], list[Any]]:
    """Return floats and others of a batch, as `values_of` takes them."""
    torch.manual_seed(3)
    lines, batch = len(features.slots) - bags, 50
    shapes = (30, features.dim), (batch, bags, features.dim), (batch, features.num_dense), (batch, 1)
    index = torch.stack([torch.randint(0, 4, (batch,)) + 5 * line for line in range(lines)]) if lines else torch.empty(0, batch)
    index[:, ::9] = 29  # absent, the last row
    return [torch.randn(shape, requires_grad=True) for shape in shapes], [index.int()]


@pytest.mark.parametrize("bags", [0, 1])
@pytest.mark.parametrize("units", [16, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_a_first_layer_gives_what_it_gives_of_vectors_side_by_side(bags: int, units: int, bias: bool) -> None:
    features = FEATURES if bags else FEATURES._replace(slots=("a", "b"), dense=())
    floats, others = inputs(features, bags)
    layer = torch.nn.Linear(features.width, units, bias=bias)
    weights = torch.randn(50, units)
    found = []
    for apart in (False, True):
        flat = values_of(floats, others, features, apart).flat
        assert type(flat) is (FlatTensor if apart else torch.Tensor)
        scores = layer(flat)
        found.append([scores, *torch.autograd.grad((scores * weights).sum(), [floats[0], *layer.parameters()])])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(there, here)


def test_anything_else_sees_vectors_side_by_side() -> None:
    floats, others = inputs()
    values = values_of(floats, others, FEATURES, True)
    plain = values_of(floats, others, FEATURES).flat
    assert values.flat.shape == (50, FEATURES.width)
    assert torch.equal(torch.cat([values.flat, values.flat], dim=1), torch.cat([plain, plain], dim=1))
    assert torch.equal(values.flat[:, :2] @ torch.ones(2, 3), plain[:, :2] @ torch.ones(2, 3))
    torch.testing.assert_close(values["tags"], floats[1][:, 0])
    (found,) = torch.autograd.grad(values.flat.square().sum(), floats[:1])
    torch.testing.assert_close(found, torch.autograd.grad(plain.square().sum(), floats[:1])[0])


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, seen: Any) -> Any:
        return seen * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


class Ranker(torch.nn.Module):
    def __init__(self, own: bool) -> None:
        super().__init__()
        self.out, self.own = torch.nn.Linear(FEATURES.width, 1), own

    def forward(self, x: Any) -> Any:
        return self.out(Doubled.apply(x.flat) if self.own else x.flat)


@pytest.mark.parametrize("own", [True, False])
def test_where_gradients_would_be_lost_vectors_stand_side_by_side_from_the_start(own: bool) -> None:
    assert explored(Ranker(own), FEATURES).apart is not own

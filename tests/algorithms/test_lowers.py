"""The programs of an algorithm's rows on a device can be compiled for a GPU, which takes no card; of its steps see
test_conformance.py."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from tests.algorithms.test_conformance import OTHERS, PARTS
from tests.cases import costly_after_first
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Online
from xpsql.algorithms.layers.initial import moved, moved_once
from xpsql.algorithms.layers.lookups import PREFIX
from xpsql.platform.operators.chains import chain
from xpsql.platform.ps.compiled.device_programs import DevicePrograms, packed
from xpsql.platform.ps.compiled.row_programs import RowPrograms, row_programs
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.messages import Touched
from xpsql.platform.ps.rows.held import new
from xpsql.platform.registry import EDGES
from xpsql.platform.training.online.step import learn_step
from xpsql.testing import AlgorithmTrial, algorithms

SIZE, ROWS = 64, 512
KEYS = np.arange(9, dtype=np.uint64)
NUMBERS = dict.fromkeys(
    (
        "rate",
        "rows",
        "now",
        "since",
        "pass",
        "split",
        "batch",
        "clock",
        "tally_rows",
        "tally_end",
        "tally_free",
        "base_rate",
        "examples",
        "pushed",
    ),
    1,
)


def lowered(function: Any, *given: Any) -> str:
    """Return a program for GPUs as text."""
    return jax.export.export(function, platforms=["cuda"])(*given).mlir_module()


def trial_of(name: str) -> AlgorithmTrial:
    layout, options = OTHERS.get(name, (algorithms.LAYOUT, None))
    return AlgorithmTrial(PARTS[name], options, layout)


def test_every_algorithm_of_ours_is_tried() -> None:
    others = {part.name for part in ALGORITHMS if part.takes == EDGES} | {"xgboost"}  # no functions of JAX
    assert {part.name for part in ALGORITHMS} - PARTS.keys() == others


def test_a_step_for_cpus_has_calls_of_ours() -> None:
    trial = trial_of("xftrl")
    text = learn_step(trial.algorithm).lower(trial.parameters(), trial.inputs(), None).as_text()  # type: ignore[attr-defined]
    assert PREFIX in text


@costly_after_first
@pytest.mark.parametrize("name", [name for name in PARTS if isinstance(trial_of(name).algorithm.learns, Online)])
def test_programs_of_rows_have_nothing_that_is_for_cpus_alone(name: str) -> None:
    algorithm = trial_of(name).algorithm
    made: list[Programs] = []
    for spec in algorithm.tables:
        operators = chain(*algorithm.operators(spec), algorithm.optimizer(spec))
        made.append(Programs(spec, operators, 7, made[0] if made else None))
    for programs in row_programs(tuple(made)):
        if not programs.lead.lives:
            check_rows(programs)


def check_rows(programs: RowPrograms) -> None:
    device = DevicePrograms(programs)
    held = jax.eval_shape(lambda: new(ROWS // 8, ROWS, 6, list(programs.dims.values())))
    counts = np.ones(len(KEYS), np.uint32)
    touched = Touched(KEYS, counts.astype(np.uint16), counts, counts, 1)
    rows = {name: jnp.zeros((SIZE, one.spec.dim)) for name, one in programs.tables.items()}
    given = packed(SIZE, KEYS, NUMBERS, touched), None, programs.brought(rows, rows)
    texts = [lowered(device.pull, held, packed(SIZE, KEYS, NUMBERS))]
    texts += [lowered(push, held, *given) for push in (device.push, device.watched_push)]
    assert not any(PREFIX in text for text in texts)
    assert all("while" not in text for text in texts), "rows are cleared in a loop, as CPUs like it"


@pytest.mark.parametrize("scale", [0.01, 0.05, 0.25])
def test_a_device_that_rounds_products_starts_vectors_with_the_bits_of_the_cpu(scale: float) -> None:
    limit, whole = scale * math.sqrt(3), np.arange(0, 1 << 24, 7, dtype=np.float32)
    on_cpu = jax.jit(functools.partial(moved, limit))(whole)
    with jax.disable_jit():  # each operation is a program, so that none is fused with another
        elsewhere = moved_once(limit, jnp.asarray(whole))
    np.testing.assert_array_equal(elsewhere, on_cpu)

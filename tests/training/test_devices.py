"""A training on a device is the one on the CPU, and what a device cannot do is refused before work starts."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import xpsql
from tests.algorithms.uses import USES, learned
from tests.cases import costly, lengthy, quick
from tests.training.log import log, write
from xpsql.algorithms.base import Layout, Traits
from xpsql.algorithms.linear.xftrl import XFTRL, XftrlOptions, xftrl
from xpsql.platform.errors import StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.compiled import prepare_jax
from xpsql.platform.training.devices import DevicePlace, check_device, dense_device, device_tables, missing, place_of
from xpsql.platform.training.online.on_device import placed_step
from xpsql.platform.training.plan import Plan, Use
from xpsql.testing import AlgorithmTrial

LINEAR = xftrl(XftrlOptions(), Layout(("a",)))
NO_GPU = all(device.platform != "gpu" for device in jax.local_devices())


def plan(**settings: Any) -> Plan:
    return Plan("", "m", Use("xftrl", {}, XftrlOptions()), (), "", settings=Settings(**settings))


@costly
@pytest.mark.parametrize("algorithm", quick(["xftrl", "xnn", "din"], ["xftrl", "din"]))
def test_rows_on_a_device_are_those_of_this_machine_bit_for_bit(tmp_path: Path, algorithm: str) -> None:
    path, use = write(log(3000), tmp_path / "log.parquet"), USES[algorithm]
    with xpsql.connect(tmp_path / "warehouse", "duckdb", SilentReporter()) as session:
        for model, place in (("host", ""), ("device", ", rows_on = 'device'")):
            session.sql(use.train(model, algorithm, path, f"batch_size = 256, workers = 1, passes = 2{place}"))
        assert learned(session, "device").equals(learned(session, "host"))
        session.sql(f"CONTINUE MODEL device WITH (batch_size = 256) AS {use.query(path)}")
        session.sql(f"CONTINUE MODEL host WITH (batch_size = 256, rows_on = 'device') AS {use.query(path)}")
        assert learned(session, "device").equals(learned(session, "host"))


def test_a_step_placed_on_a_device_returns_what_learning_there_needs() -> None:
    trial = AlgorithmTrial(XFTRL)
    given = trial.parameters(), trial.inputs(), None
    expected = trial.learn(*given)
    for rows in (False, True):
        found = placed_step(trial.algorithm, (), DevicePlace("cpu", rows, True))(*given)
        assert isinstance(found.predictions, np.ndarray)
        assert isinstance(found.gradients["weights"], jax.Array if rows else np.ndarray)
        np.testing.assert_array_equal(found.predictions, expected.predictions)
        np.testing.assert_array_equal(found.gradients["weights"], expected.gradients["weights"])


def test_only_a_device_that_is_asked_for_places_anything() -> None:
    assert place_of(Settings()) is place_of(Settings(device="cpu")) is None
    assert place_of(Settings(device="gpu", sync="bsp")) == DevicePlace("gpu", False, True)
    assert place_of(Settings(rows_on="device")) == DevicePlace("cpu", True, False)
    assert device_tables(None) is device_tables(DevicePlace("gpu", False, False)) is dense_device(None) is None


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        for statement in ("TRAIN", "EXPLAIN TRAIN"):
            message = r"device = 'gpu' needs a GPU that JAX can use\. On Linux.* JAX's package"
            with pytest.raises(StatementError, match=message) as raised:
                session.sql(
                    f"{statement} MODEL m USING xftrl WITH (device = 'gpu') AS SELECT id % 2 AS label, id AS a FROM range(9)"
                )
            assert "pip install 'xpsql[gpu]'" in str(raised.value)
        assert session.sql("SHOW MODELS").arrow().num_rows == 0


def test_the_choice_of_platforms_is_named_where_it_leaves_no_gpu() -> None:
    found = missing(RuntimeError("Unknown backend"), "cpu")
    assert found == "JAX_PLATFORMS is 'cpu', which leaves none: unset it, or add cuda."


@pytest.mark.parametrize(
    ("settings", "lives", "outside", "message"),
    [
        ({"device": "gpu"}, False, "PyTorch", "xftrl calls PyTorch on the CPU, so that its steps cannot run on a GPU"),
        ({"rows_on": "device", "workers": 2}, False, "", "takes one worker and one shard"),
        ({"rows_on": "device", "shards": 2}, False, "", "takes one worker and one shard"),
        ({"rows_on": "device"}, True, "", "OPERATORS admits or ends rows"),
    ],
)
def test_what_a_device_cannot_do_is_refused(settings: dict[str, Any], lives: bool, outside: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        check_device(plan(**settings), dataclasses.replace(LINEAR, traits=Traits(outside=outside)), lives, None)


def test_an_algorithm_that_learns_all_rows_at_once_has_no_use_for_a_device(tmp_path: Path) -> None:
    refused = pytest.raises(StatementError, match="rows_on has no effect without an algorithm that learns batch by batch")
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session, refused:
        session.sql("TRAIN MODEL m USING owlqn WITH (rows_on = 'device') AS SELECT id % 2 AS label, id AS a FROM range(9)")


@lengthy
def test_where_jax_has_a_package_for_devices_programs_stay_on_the_cpu_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "jax_plugins").mkdir()
    print_it = "import jax; print(jax.config.jax_default_device)"
    for path, expected in (("", "None"), (str(tmp_path), "cpu")):
        code = f"import sys; sys.path += [{path!r}]; from {prepare_jax.__module__} import prepare_jax as p; p(); {print_it}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.strip() == expected

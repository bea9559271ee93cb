"""What the settings of a Spark application grant its tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import xpsql
from xpsql.platform.engines.spark.classic import ClassicApplication
from xpsql.platform.engines.spark.tasks import MEBIBYTE, SparkTasks

OVERHEAD = {"memoryOverhead": "3g"}
PYTHON = {"pyspark.memory": "6g"}


def tasks(master: str, executor: dict[str, str], cpus: str | None) -> SparkTasks:
    settings = {f"spark.executor.{name}": value for name, value in executor.items()} | {"spark.task.cpus": cpus}
    java = SimpleNamespace(sparkContext=lambda: SimpleNamespace(isStopped=lambda: False))
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master), conf=settings, _jsparkSession=java)
    return SparkTasks(ClassicApplication(session))


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443"])
@pytest.mark.parametrize(
    ("executor", "cpus", "mebibytes"),
    [
        ({}, None, 384),
        ({"memory": "20g", "cores": "4"}, None, 512),
        ({"memory": "20g", "memoryOverheadFactor": "0.4"}, None, 8192),
        ({**OVERHEAD, "cores": "3"}, None, 1024),
        ({**OVERHEAD, "cores": "8"}, "4", 1536),
        ({**OVERHEAD, "cores": "8"}, "8", 3072),
        ({**OVERHEAD, **PYTHON}, None, 6144),
        ({**OVERHEAD, **PYTHON, "cores": "4"}, "2", 1536),  # by cores, whatever a task takes of them
    ],
)
def test_the_tasks_of_an_executor_share_its_memory(
    master: str, executor: dict[str, str], cpus: str | None, mebibytes: int
) -> None:
    assert tasks(master, executor, cpus).memory_bytes() == mebibytes * MEBIBYTE


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local-cluster[2,2,512]", "spark://host:7077"])
def test_masters_that_run_no_containers_limit_what_spark_itself_does(master: str) -> None:
    assert tasks(master, {**OVERHEAD, "cores": "2"}, None).memory_bytes() is None
    assert tasks(master, {**PYTHON, "cores": "2"}, None).memory_bytes() == 3072 * MEBIBYTE


@pytest.mark.parametrize(("cores", "wanted"), [("1", "1024m"), ("2", "2048m")])
def test_memory_that_python_alone_exceeds_is_refused(cores: str, wanted: str) -> None:
    message = rf"pyspark.memory = 800m grants the Python of a task {800 // int(cores)} MiB; .* Give {wanted} or more"
    with pytest.raises(xpsql.StatementError, match=message):
        tasks("local[2]", {"pyspark.memory": "800m", "cores": cores}, None).memory_bytes()


def test_tasks_that_start_together_are_refused_where_executors_come_and_go() -> None:
    settings = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "3"}
    found = tasks("yarn", {"cores": "2"}, None)
    found._application.spark.conf.update(settings)  # type: ignore[attr-defined]
    assert found.slots(2, gang=False) == 6
    with pytest.raises(xpsql.StatementError, match=r"'hybrid' need workers that start together, .* Set that to false"):
        found.slots(2, gang=True)

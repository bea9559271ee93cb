"""A parameter server whose shards are tasks of Spark, and whose clients are, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import xpsql
import xpsql.ps
from tests.cases import lengthy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

TABLES = {"item": xpsql.ps.Table(2, "sgd (learning_rate = 1.0)", init=0)}


@lengthy
def test_tasks_of_spark_push_to_shards_that_are_tasks_of_spark(spark: SparkSession, warehouse: Path) -> None:
    with xpsql.ps.on_spark(spark, warehouse, "s", TABLES, shards=2, checkpoint_seconds=None) as ps:
        contact = ps.contact

        def learn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with xpsql.ps.connect(contact) as client:
                for batch in batches:
                    client["item"].push(batch["id"], np.full((len(batch), 2), -1))
                    yield batch

        frame = spark.range(0, 100, numPartitions=2)
        assert frame.mapInArrow(learn, frame.schema).count() == 100
        assert set(ps["item"].pull(np.arange(100)).reshape(-1).tolist()) == {1}
        assert ps.status()["shards"] == 2
        assert ps.commit("m") == 1
    with pytest.raises(xpsql.NotAvailableError, match="does not run"):
        xpsql.ps.connect(warehouse, "s")
    with xpsql.connect(warehouse) as session:
        assert session.sql("SELECT count(*) FROM ML.WEIGHTS(MODEL m)").fetchall() == [(100,)]


def test_an_application_without_room_for_the_shards_is_refused(spark: SparkSession, warehouse: Path) -> None:
    with pytest.raises(xpsql.StatementError, match="needs 64 tasks for its shards"):
        xpsql.ps.on_spark(spark, warehouse, "s", TABLES, shards=64)
    xpsql.ps.local(warehouse, "s", TABLES).close()  # the name is free

"""Vertex programs on Spark's tasks: the same bits as in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xpsql
from tests.cases import lengthy, quick
from xpsql.platform.progress import SilentReporter

from .learned import edges_table, weights
from .test_statements import random_edges


@lengthy
@pytest.mark.parametrize("using", quick(["pagerank", "components", "kcore", "triangles"], ["pagerank", "triangles"]))
def test_workers_on_spark_give_the_bits_of_one_process(tmp_path: Path, spark: SparkSession, using: str) -> None:
    path, found = tmp_path / "edges.parquet", []
    pq.write_table(edges_table(random_edges(2000, 100, using == "pagerank")), path, row_group_size=500)
    more = " WEIGHT w" if using == "pagerank" else ""
    for engine, settings in (("duckdb", ""), (spark, "WITH (workers = 2)")):
        name = f"{tmp_path}/{'here' if engine == 'duckdb' else 'spark'}"
        with xpsql.connect(name, engine, SilentReporter()) as session:
            session.sql(f"TRAIN MODEL m USING {using} SOURCE src TARGET dst{more} {settings} AS SELECT * FROM parquet.`{path}`")
            found.append(weights(session))
            if engine != "duckdb" and using == "pagerank":
                session.sql("CONTINUE MODEL m AS SELECT * FROM parquet.`" + str(path) + "`")
                walked = session.sql(
                    f"SELECT count(*) AS n FROM ML.WALKS((SELECT * FROM parquet.`{path}`), SOURCE src, TARGET dst, "
                    "WITH (length = 3, per_node = 2))"
                ).arrow()
                assert walked.column(0)[0].as_py() == 2 * len(found[0])
    assert found[0] == found[1]

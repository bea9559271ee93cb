"""Ctrl-C while workers of an embedded training make their steps together."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import xpsql
from tests.cases import lengthy
from tests.training.log import log, write
from xpsql.platform.progress import SilentReporter

ROWS = 1500


class CtrlC(SilentReporter):
    """Sends SIGINT at the n-th update."""

    def __init__(self, n: int) -> None:
        self._left = n

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def weights(session: xpsql.Session) -> pa.Table:
    return session.sql("SELECT key, weight, count FROM ML.WEIGHTS(MODEL m) ORDER BY key").arrow()


@lengthy
def test_a_bsp_training_that_ctrl_c_ends_in_a_step_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpsql.platform.training.monitor.TELL_SECONDS", 0.0)
    path = write(log(ROWS), tmp_path / "log.parquet", row_group_rows=150)
    options = "sync = 'bsp', workers = 2, shards = 2, batch_size = 30, checkpoint_seconds = 3600"
    statement = f"TRAIN MODEL m USING xftrl WITH ({options}) AS SELECT label, user, item FROM parquet.`{path}`"
    with xpsql.connect(tmp_path / "whole", "duckdb", SilentReporter()) as session:
        session.sql(statement)
        expected = weights(session)
    for n in range(5, 25, 2):
        with xpsql.connect(tmp_path / str(n), "duckdb", CtrlC(n)) as session, pytest.raises(KeyboardInterrupt):
            session.sql(statement)
        with xpsql.connect(tmp_path / str(n), "duckdb", SilentReporter()) as session:
            assert session.sql("RESUME MODEL m").arrow().to_pylist()[0]["status"] == "ready"
            assert weights(session).equals(expected), n

"""A process that is killed after a version's profile and residuals are written, and before it is committed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.warehouse.version import Version

KILLED = """
import os, signal, sys
import xpsql
from xpsql.warehouse.draft import Draft
session = xpsql.connect(sys.argv[1])
session.sql(sys.argv[2])
Draft.commit = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
session.sql(sys.argv[3])
"""


def kept(version: Version) -> dict[str, bytes]:
    """Return the files of what was observed."""
    files = (file for name in ("calibration", "profile") for file in version.stored(name))
    return {str(file.path.relative_to(version.folder)): file.path.read_bytes() for file in files}


def test_a_kill_between_profile_and_commit_changes_nothing_of_what_is_kept(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, count in (("old", 4000), ("new", 1500)):
        x = random.integers(0, 40, count)
        rows = pa.table({"x": x.astype(str), "number": x + random.exponential(size=count)})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    given = "WITH (checkpoint_seconds = 0.001, workers = 1) AS SELECT * FROM parquet."
    first = f"TRAIN MODEL m USING xftrl (loss = 'quantile', at = 0.9) LABEL number {given}`{tmp_path}/old.parquet`"
    second = f"CONTINUE MODEL m {given}`{tmp_path}/new.parquet`"
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "cut"), first, second], check=False, timeout=300, capture_output=True
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    found = []
    for name, texts in (("cut", ("RESUME MODEL m",)), ("whole", (first, second))):
        with xpsql.connect(tmp_path / name, reporter=SilentReporter()) as session:
            if name == "cut":
                assert [one.manifest.status for one in session.models.versions("m")] == ["ready", "interrupted"]
                files = session.models.find("m", 2).folder
                assert list(files.glob("profile/*.parquet"))
                assert list(files.glob("calibration/*.parquet"))
            for text in texts:
                session.sql(text)
            version = session.models.version("m")
            assert version.number == 2
            session.sql("CHECK MODEL m")
            found.append(kept(version))
            shifts = pq.read_table(version.stored("calibration")[0].path).column("kind").to_pylist()
            assert {*shifts} == {"error", "shift"}
    assert found[0] == found[1]
    assert len(found[0]) == 2

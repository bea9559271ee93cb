"""One I/O of a statement fails, and the warehouse is whole; `make chaos` fails every one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import costly
from tests.warehouse.faults import CASES

EVERY = 51
ROOT = Path(__file__).parents[2]


@costly
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a compiler")
def test_a_call_that_fails_leaves_the_old_state_or_the_new_one_and_the_statement_can_be_run_again(tmp_path: Path) -> None:
    library = tmp_path / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).with_name("faults.c"), "-ldl"], check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.warehouse.faults", tmp_path / "run", "--every", str(EVERY)],
        env={**os.environ, "LD_PRELOAD": str(library)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    reported = re.findall(r"^\| (.+) \| (\d+) \| \d+ \| whole after each \|$", ran.stdout, re.M)
    calls = {name: int(number) for name, number in reported}
    assert min(calls.values()) > 5, ran.stdout  # the library sees what statements do
    assert len(calls) == len(CASES), ran.stdout

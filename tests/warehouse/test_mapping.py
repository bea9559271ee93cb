"""Files that are cut off while they are mapped, and the handler of SIGBUS that survives it."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cases import lengthy
from xpsql.warehouse import mapped

PAGES = 5 * mmap.PAGESIZE
OTHER = """
import ctypes, faulthandler, mmap, os, signal, sys
{first}
from xpsql.warehouse._mapping import Mapping
held = []
with open(sys.argv[1], "r+b") as file:
    held.append(Mapping(file.fileno(), {size}, []))
    file.truncate(10)
    assert not any(memoryview(held[0])[10:])
{last}
"""
ELSEWHERE = """
other = open(sys.argv[1] + "2", "w+b")
other.truncate(8192)
seen = mmap.mmap(other.fileno(), 8192, access=mmap.ACCESS_READ)
other.truncate(0)
print("before", flush=True)
print(seen[0])
"""


def opened(path: Path) -> mapped.Bytes:
    path.write_bytes(bytes([7]) * PAGES)
    with path.open("rb", buffering=0) as file:
        return mapped.content_of(file, PAGES, ("MADV_WILLNEED", "MADV_OF_NO_SYSTEM"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)


@pytest.mark.parametrize("left", [0, 1, PAGES // 2, PAGES - 1])
def test_what_is_gone_reads_as_zeros_what_is_left_as_it_was_and_the_mapping_says_so(tmp_path: Path, left: int) -> None:
    cut, whole = opened(tmp_path / "cut"), opened(tmp_path / "whole")
    with (tmp_path / "cut").open("r+b") as file:
        file.truncate(left)
    assert mapped.cut_off(cut)
    np.testing.assert_array_equal(cut, np.repeat(np.array([7, 0], np.uint8), [left, PAGES - left]))
    with (tmp_path / "cut").open("r+b") as file:
        file.write(bytes([7]) * PAGES)
    assert mapped.cut_off(cut) == (left + 1 < PAGES), "what was read as zeros stays told, though the file is whole again"
    assert not mapped.cut_off(whole)
    np.testing.assert_array_equal(whole, np.full(PAGES, 7))
    with pytest.raises(ValueError, match="read-only"):
        whole[0] = 1


@lengthy
def test_a_process_can_map_files_one_after_the_other_without_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not any(mapped.cut_off(opened(path)) for _ in range(5000))


def run(tmp_path: Path, first: str, last: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGES))
    program = OTHER.format(first=first, last=last, size=PAGES)
    return subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60)


def test_a_fault_of_another_file_ends_the_process_as_it_would_otherwise(tmp_path: Path) -> None:
    done = run(tmp_path, "", ELSEWHERE)
    assert (done.returncode, done.stdout) == (-7, "before\n"), done.stderr


def test_a_fault_of_another_file_is_handed_to_the_handler_before(tmp_path: Path) -> None:
    done = run(tmp_path, "faulthandler.enable()", ELSEWHERE)
    assert done.returncode == -7
    assert "Fatal Python error: Bus error" in done.stderr


def test_a_signal_that_somebody_sends_is_no_fault(tmp_path: Path) -> None:
    assert run(tmp_path, "", "os.kill(os.getpid(), signal.SIGBUS)").returncode == -7
    done = run(tmp_path, "signal.signal(signal.SIGBUS, lambda *_: print('heard'))", "os.kill(os.getpid(), signal.SIGBUS)")
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr

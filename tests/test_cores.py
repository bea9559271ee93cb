"""The cores of this machine that are ours."""

from __future__ import annotations

import os

import pytest

from xpsql.platform.cores import cores


def test_cores_are_counted_where_processes_have_no_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()

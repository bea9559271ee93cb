"""A manifest of any bytes is read, or reported as damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpsql.platform.errors import ModelError
from xpsql.warehouse.manifest import read_manifest
from xpsql.warehouse.trainings.progress import read_progress


@pytest.mark.parametrize("content", [b'{"format": 1, "model": "\xf3"}', b"[" * 100_000, b'{"format": Infinity}', b"\xff\xfe"])
def test_a_manifest_that_cannot_be_read_is_reported_as_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"manifest\.json is damaged"):
        read_manifest(tmp_path)


def test_a_line_of_progress_that_nests_too_deeply_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "progress.jsonl").write_bytes(b"[" * 100_000 + b'\n{"pass": 1}\n')
    assert read_progress(tmp_path) == [{"pass": 1}]

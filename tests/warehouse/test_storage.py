"""A place of checkpoints that cannot be reached is reported as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpsql.platform.errors import ModelError
from xpsql.warehouse.storage import Storage


def test_a_place_that_cannot_be_looked_into_is_not_reported_as_one_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"Cannot read .*file: .* Check that it can be reached"):
        Storage(str(tmp_path / "file")).folders()

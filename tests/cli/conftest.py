from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.plain import PlainEngine
from xpsql.platform import session
from xpsql.platform.cli import main


class Command:
    """Runs the command in this process, on an engine for tests."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse

    def __call__(self, *arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(main, arguments, env={"XPSQL_WAREHOUSE": str(self.warehouse)}, **options)


@pytest.fixture
def xpsql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    plain = session.ENGINES[0]._replace(open=lambda warehouse, options: PlainEngine())  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(session, "ENGINES", (plain, session.ENGINES[1]))
    return Command(tmp_path)

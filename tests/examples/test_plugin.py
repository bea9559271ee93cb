"""The example of a package from outside: installed, it conforms, is listed, and trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the package and return the environment in which it is there."""
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    source.mkdir()
    for path in PLUGIN.rglob("*"):
        if path.suffix in {".py", ".toml", ".md", ".sql"} and "build" not in path.parts:
            copy = source / path.relative_to(PLUGIN)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    command = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site"), str(source)]
    subprocess.run([sys.executable, *command], check=True, timeout=300)
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "PLUGIN_SOURCE": str(source)}


def run(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_under_80_lines() -> None:
    files = [path for path in (PLUGIN / "xps_plugin").glob("*.py") if path.name != "__init__.py"]
    assert len(files) == 2
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 80


def test_its_own_tests_pass_with_the_public_suite(installed: dict[str, str], tmp_path: Path) -> None:
    tests = Path(installed["PLUGIN_SOURCE"]) / "tests"
    assert "passed" in run(installed, tmp_path, "pytest", str(tests), "-p", "no:cacheprovider", "-W", "error")


def test_its_parts_are_listed_and_the_nine_steps_train(installed: dict[str, str], tmp_path: Path) -> None:
    listed = run(installed, tmp_path, "xpsql", "sql", "SHOW OPERATORS; SHOW ALGORITHMS", "--format", "csv")
    assert "smooth" in listed
    assert "pooled" in listed
    assert "xps-plugin" in listed
    shown = run(installed, tmp_path, "xpsql", "run", str(PLUGIN / "train.sql"), "--format", "csv")
    auc = float(shown.strip().splitlines()[-1].split(",")[0])
    assert auc > 0.9


def test_the_readme_names_the_nine_steps() -> None:
    text = (PLUGIN / "README.md").read_text(encoding="utf-8")
    assert [f"| {n}. " in text for n in range(1, 10)] == [True] * 9

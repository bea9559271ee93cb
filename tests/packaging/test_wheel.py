"""A wheel of the project works where the checkout is not."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.packaging.trial import attempt

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
SUFFIX = ".abi3.so" if sys.version_info >= (3, 12) else sysconfig.get_config_var("EXT_SUFFIX")
PROGRAM = """
import platform, xpsql
from importlib import import_module
from pathlib import Path
assert platform.system(), "the standard library's platform is shadowed"
print(Path(xpsql.__file__).parent)
for name in ("platform.ps._native", "platform.ps.keys", "platform.errors", "algorithms.layers.lookups", "warehouse"):
    print(import_module("xpsql." + name).__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    build += ["-C", f"build-dir={folder / 'cmake'}", "-C", "cmake.build-type=Debug"]  # which compiles in less time
    build += ["-w", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, timeout=600)
    return next(folder.glob("*.whl"))


def test_a_wheel_holds_the_packages_as_files_and_no_sources_of_the_native_code(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        f"xpsql/{path.relative_to(ROOT)}"
        for part in ("platform", "algorithms", "warehouse")
        for path in ROOT.glob(f"{part}/**/*.py")
    }
    assert sources <= names
    assert {
        "xpsql/py.typed",
        "xpsql/platform/ps/_native.pyi",
        "xpsql/platform/ps/_native" + SUFFIX,
        "xpsql/algorithms/layers/_lookups" + SUFFIX,
        "xpsql/warehouse/_mapping" + SUFFIX,
    } <= names
    assert not [name for name in names if "/native/" in name or name.endswith((".cpp", ".hpp"))]


def test_a_source_distribution_has_what_a_wheel_is_made_of_byte_by_byte(tmp_path: Path) -> None:
    program = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(tmp_path / done.stdout.splitlines()[-1]) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"xpsql-{VERSION}"
    parts = ("platform", "algorithms", "warehouse", "xpsql/testing")
    wanted = [path for part in parts for kind in ("py", "pyi", "cpp", "hpp") for path in ROOT.glob(f"{part}/**/*.{kind}")]
    wanted += [ROOT / "pyproject.toml", ROOT / "CMakeLists.txt", ROOT / "platform" / "cli" / "report.html"]
    assert len(wanted) > 700
    differing = [path for path in wanted if (unpacked / path.relative_to(ROOT)).read_bytes() != path.read_bytes()]
    assert differing == []
    for link in ("platform", "algorithms", "warehouse"):  # the package is the same folders, once
        assert (unpacked / "xpsql" / link).readlink() == Path("..") / link
    assert {path.name for path in unpacked.iterdir()} & {"tests", "docs", "benchmarks", ".venv", "build"} == set()


def test_a_wheel_holds_no_tests_and_no_benchmarks(wheel: Path) -> None:
    first = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert first == {"xpsql", f"xpsql-{VERSION}.dist-info"}


def test_a_wheel_says_what_it_is_and_which_extras_it_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        said = email.message_from_bytes(packed.read(f"xpsql-{VERSION}.dist-info/METADATA"))
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert "Programming Language :: SQL" in said.get_all("Classifier", [])
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_a_wheel_runs_the_ten_statements_and_serves_where_nothing_else_is(wheel: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv, which makes the environments, is not on the path")
    attempt(wheel, sys.executable, uv)


def test_an_installed_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True
    )
    # The dependencies come from this environment: a path in a .pth file adds them, and not what is installed there editable.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([home / "bin" / "python", "-c", PROGRAM], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_relative_to(site / "xpsql") for line in done.stdout.splitlines())


def test_the_folder_platform_is_no_package_of_its_own() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()

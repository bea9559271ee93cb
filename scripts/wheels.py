"""Builds, checks and tries what a release has: wheels of Linux and a source distribution, in dist/. Run by `make wheel`.

The compiler is zig, which brings a C++ library of its own, so that a wheel made anywhere runs wherever glibc 2.28 does. A wheel
for this machine's processor is installed into environments that have nothing else, and tried (tests/packaging/trial.py); others
are not run. ARCHES, PYTHONS: what to build for, of x86_64 and aarch64, and of 3.11 and 3.12, whose wheel later ones take.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST, WORK = ROOT / "dist", ROOT / "build" / "wheels"
BIN = Path(sys.executable).parent
GLIBC = (2, 28)
STABLE = (3, 12)
"""From this Python on, wheels are of the stable ABI: one for all."""
NEWEST = (3, 14)
HEADERS = "jaxlib==0.10.0"
"""The oldest that pyproject.toml allows: newer ones run what was built with its headers."""
ZIG_MISSING = (
    "make wheel compiles with zig, of the package ziglang, which could not be installed: use an index that has it. "
    "`pip install .` compiles with this machine's own compiler, for this machine."
)


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = next(need for need in project["build-system"]["requires"] if need.startswith("jaxlib")).replace(">=", "==") + ".0"
    if oldest != HEADERS:
        sys.exit(f"HEADERS of scripts/wheels.py is {HEADERS}; the oldest that pyproject.toml allows is {oldest}.")
    tools()
    shutil.rmtree(DIST, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = output("git", "log", "-1", "--format=%ct") or "315532800"
    source = unpacked(sdist())
    arches = os.environ.get("ARCHES", "x86_64 aarch64").split()
    built = [
        wheel(source, python, found, arch)
        for python in os.environ.get("PYTHONS", "3.11 3.12").split()
        for found in [interpreter(version(python))]
        for arch in arches
    ]
    check()
    lines = [f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {trial(path)}" for path in built]
    files = sorted(path for path in DIST.iterdir() if path.suffix in {".whl", ".gz"})
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("\n".join(lines))


def tools() -> None:
    """Install what the build takes, the group `wheel`, into the environment that runs this."""
    install = [BIN / "uv", "pip", "install", "--quiet", "--python", sys.executable, "--group", "wheel"]
    if subprocess.run(install, check=False, cwd=ROOT).returncode and find_spec("ziglang") is None:
        sys.exit(ZIG_MISSING)


def version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def interpreters(wanted: tuple[int, int]) -> Iterator[Path]:
    """Yield the Pythons of a version: on the path, and those of pyenv, which are not."""
    name = "python{}.{}".format(*wanted)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in filter(None, [shutil.which(name), *sorted(pyenv.glob(f"{name[6:]}.*/bin/{name}"))]):
        if subprocess.run([path, "--version"], check=False, capture_output=True).returncode == 0:
            yield Path(path)


def interpreter(wanted: tuple[int, int]) -> Path:
    found = next(interpreters(wanted), None)
    if found is None:
        name = "{}.{}".format(*wanted)
        sys.exit(f"make wheel needs Python {name} with its headers. Install it, or build the others: make wheel PYTHONS=...")
    return found


def output(*command: str) -> str:
    """Return what a command prints, or nothing where it fails: a source distribution has no history."""
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def uv(*arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    subprocess.run([BIN / "uv", *arguments], check=True, env=environment, cwd=ROOT)


def environment_of(python: Path, name: str) -> Path:
    """Make an environment to build in, and return its Python."""
    folder = WORK / name
    uv("venv", "--quiet", "--clear", "--python", python, folder)
    made = folder / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", made, "--no-deps", HEADERS)
    uv("pip", "install", "--quiet", "--python", made, "scikit-build-core>=1.1", "nanobind>=3.1")
    return made


def sdist() -> Path:
    python = environment_of(Path(sys.executable), "sdist")
    uv("build", "--quiet", "--sdist", "--no-build-isolation", "--python", python, "--out-dir", DIST, ROOT)
    return next(DIST.glob("*.tar.gz"))


def unpacked(archive: Path) -> Path:
    """Unpack the source distribution: what wheels are built from."""
    folder = WORK / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.iterdir())


def compilers(arch: str) -> Path:
    """Write what calls zig as the compiler of an architecture, and return the folder."""
    spec = find_spec("ziglang")
    assert spec is not None  # `tools` has seen to it
    assert spec.origin is not None
    zig, folder = Path(spec.origin).parent / "zig", WORK / arch
    folder.mkdir(parents=True, exist_ok=True)
    target = "{}-linux-gnu.{}.{}".format(arch, *GLIBC)
    for name, arguments in {
        "cc": f"cc -target {target}",
        "c++": f"c++ -target {target}",
        "ar": "ar",
        "ranlib": "ranlib",
    }.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{zig}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def wheel(source: Path, name: str, python: Path, arch: str) -> Path:
    """Build a wheel of a Python and an architecture; where headers name sizes, both architectures have the same."""
    made, compiler, folder = environment_of(python, name), compilers(arch), WORK / f"{name}-{arch}"
    shutil.rmtree(folder, ignore_errors=True)
    settings = {
        "build-dir": folder / "cmake",
        "cmake.define.CMAKE_AR": compiler / "ar",
        "cmake.define.CMAKE_RANLIB": compiler / "ranlib",
        "cmake.define.CMAKE_CXX_FLAGS": f"-ffile-prefix-map={source}=. -ffile-prefix-map={made.parents[1]}=.",
    }
    environment = {
        **os.environ,
        "CC": str(compiler / "cc"),
        "CXX": str(compiler / "c++"),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}",
    }
    if version(name) < STABLE:
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-{name.replace('.', '')}-{arch}-linux-gnu.so"
    if arch != platform.machine():
        settings |= {"cmake.define.CMAKE_SYSTEM_NAME": "Linux", "cmake.define.CMAKE_SYSTEM_PROCESSOR": arch}
    options = [text for key, value in settings.items() for text in ("--config-setting", f"{key}={value}")]
    uv("build", "--quiet", "--wheel", "--no-build-isolation", "--python", made, "--out-dir", folder, *options, source,
       environment=environment)  # fmt: skip
    return tagged(next(folder.glob("*.whl")), arch)


def tagged(built: Path, arch: str) -> Path:
    """Name a wheel by the glibc that it was built for, where it asks for no newer one; returns its path in dist/."""
    report = subprocess.run([BIN / "auditwheel", "show", "--json", built], check=True, capture_output=True, text=True).stdout
    found = json.loads(report)["overall_tag"]
    needs = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{arch}", found)
    plat = "manylinux_{}_{}_{}".format(*GLIBC, arch)
    if needs is None or (int(needs[1]), int(needs[2])) > GLIBC:
        sys.exit(f"{built.name} is {found}, and has to run wherever {plat} does:\n{report}")
    shutil.copy(built, DIST)
    retag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", plat, DIST / built.name]
    name = subprocess.run(retag, check=True, capture_output=True, text=True).stdout.strip()
    return DIST / name


def check() -> None:
    """Let the packagers' own tools look at what was built."""
    wheels = sorted(DIST.glob("*.whl"))
    subprocess.run([BIN / "check-wheel-contents", *wheels], check=True)
    subprocess.run([BIN / "twine", "check", "--strict", *wheels, *DIST.glob("*.tar.gz")], check=True)
    for stable in (path for path in wheels if "-abi3-" in path.name):
        subprocess.run([BIN / "abi3audit", "--strict", stable], check=True)


def trial(built: Path) -> str:
    """Try a wheel on every Python here that takes it; returns on which."""
    if not built.stem.endswith(platform.machine()):
        return f"audited, not run: this machine is no {built.stem.rpartition('_2_28_')[2]}"
    first = version(re.sub(r".*-cp3(\d+)-.*", r"3.\1", built.name))
    later = [(3, minor) for minor in range(first[1], NEWEST[1] + 1)] if first >= STABLE else [first]
    pythons = [python for wanted in later for python in list(interpreters(wanted))[:1]]
    for python in pythons:
        subprocess.run([sys.executable, "-m", "tests.packaging.trial", built, python, BIN / "uv"], check=True, cwd=ROOT)
    return f"ran on {', '.join(path.name for path in pythons)}"


if __name__ == "__main__":
    main()

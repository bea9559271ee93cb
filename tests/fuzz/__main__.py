"""Runs one target under atheris: `python -m tests.fuzz TARGET [options of libFuzzer]`. See docs/faults.md.

The corpus of the repository is read; what is found goes to FOLDER (build/fuzz): new inputs to TARGET, those that fail to
`TARGET-crash-*`. The number of executions is printed at the end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import atheris

# An editable installation has a loader of its own, whose modules atheris cannot follow; the repository's are read here.
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
BUILT = {
    "xpsql.platform.ps._native": os.environ.get("NATIVE"),
    "xpsql.algorithms.layers._lookups": None,
    "xpsql.warehouse._mapping": None,
}
for name, given in BUILT.items():
    path = given or next(Path(atheris.path()).glob(f"{name.replace('.', '/')}.*.so"))
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])

# Where the native module was built for it, libFuzzer calls its readers without Python between.
IS_NATIVE = BUILT["xpsql.platform.ps._native"] and sys.argv[1] in {"frames", "messages", "arguments", "image"}
if IS_NATIVE:
    from .native import run
else:
    with atheris.instrument_imports(include=["xpsql", "tests.fuzz.targets"]):
        from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    name, *options = sys.argv[1:]
    found = Path(os.environ.get("FOLDER", "build/fuzz")) / name
    found.mkdir(parents=True, exist_ok=True)
    places = [str(found), str(CORPUS / name), f"-artifact_prefix={found.parent}/{name}-"]
    argv = [sys.argv[0], *places, "-timeout=60", "-rss_limit_mb=4096", *options]
    if IS_NATIVE:
        run(name, argv)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        target = TARGETS[name](Path(folder))

        def tried(data: bytes) -> int:
            target(data)
            return 0

        atheris.Setup(argv, tried)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""What messages and pages say about installing is true, and a checkout that is not compiled says so."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from socket import socket

import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.docs.blocks import ROOT
from tests.packaging import requirements

FILE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = set(FILE["project"]["optional-dependencies"])
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("examples/**/Dockerfile")]
SOURCES = [
    path for tree in ("platform", "algorithms", "warehouse", "xpsql", "examples") for path in ROOT.glob(f"{tree}/**/*.py")
]


def names_of_extras(text: str) -> set[str]:
    return {name for listed in re.findall(r"xpsql\[([\w,]+)\]", text) for name in listed.split(",")}


def test_pages_name_extras_that_there_are() -> None:
    named = {name for path in PAGES for name in names_of_extras(path.read_text(encoding="utf-8"))}
    assert {"spark", "serve", "onnx"} <= named <= EXTRAS


@lengthy
def test_messages_name_extras_that_there_are_by_one_function() -> None:
    named = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "needing":
                named.add(ast.literal_eval(node.args[1]) if isinstance(node.args[1], ast.Constant) else "")
    assert {"spark", "kafka", "tls"} <= named - {""} <= EXTRAS


def test_neither_pages_nor_messages_name_a_folder_that_a_user_may_not_be_in() -> None:
    assert [path for path in (*PAGES, *SOURCES) if "install '.[" in path.read_text(encoding="utf-8")] == []


def test_what_developers_need_is_a_group_and_no_extra() -> None:
    assert {"dev", "bench", "docs", "fuzz", "examples", "wheel"} == set(FILE["dependency-groups"])
    assert not EXTRAS & set(FILE["dependency-groups"])


@costly
def test_requirements_of_the_service_are_what_it_imports() -> None:
    assert requirements.FILE.read_text(encoding="utf-8") == requirements.text()


def test_sources_without_compiled_modules_say_so_in_one_sentence() -> None:
    built = re.findall(r"LIBRARY DESTINATION xpsql/([\w/]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
    assert len(built) == 3
    for name in (place.replace("/", ".") for place in built):
        program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import xpsql.{name}"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, cwd=Path("/"))
        assert f"sources in {ROOT}, which have no compiled modules" in done.stderr.splitlines()[-1]


def test_importing_xpsql_imports_nothing_but_the_standard_library() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import xpsql; "
        "print({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'xpsql', '__main__'})"
    )
    assert subprocess.check_output([sys.executable, "-I", "-S", "-c", program], text=True) == "set()\n"


@costly
@pytest.mark.parametrize(("package", "using"), [("jax", "xnn"), ("sqlglot", "xftrl TRANSFORM (u + 1 AS v)")])
def test_a_model_that_takes_more_than_the_requirements_of_the_service_names_what_it_lacks(
    package: str, using: str, session: xpsql.Session, warehouse: Path
) -> None:
    using, _, transform = using.partition(" ")
    log = "SELECT id % 7 AS u, CAST(id % 2 AS INT) AS y FROM range(200)"
    session.sql(f"TRAIN MODEL m USING {using} LABEL y {transform} AS {log}")
    program = f"import sys; sys.modules[{package!r}] = None; from xpsql.platform.cli import run; run()"
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", program, "serve", "m", "--port", port]
    done = subprocess.run(command, env={**os.environ, "XPSQL_WAREHOUSE": str(warehouse)}, capture_output=True, text=True)
    assert done.returncode == 1
    said = f"Error: The model m needs the package {package}. Install all that xpsql requires: pip install xpsql."
    assert done.stderr.splitlines()[-1] == said


@costly
def test_a_statement_in_an_environment_of_the_service_names_what_it_lacks() -> None:
    program = "import sys; sys.modules['duckdb'] = None; from xpsql.platform.cli import run; run()"
    done = subprocess.run([sys.executable, "-c", program, "sql", "SELECT 1"], capture_output=True, text=True)
    assert done.stderr == "Error: This needs the package duckdb. Install all that xpsql requires: pip install xpsql.\n"

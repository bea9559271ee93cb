"""Every case of fixtures/*.sql: a script, then what it must parse to.

A case is a line `-- case: name`, lines `-- with: name = value` for variables, the script, and lines `--> expectation`. An
expectation is a Python expression over the fields of the last command, `command`, `commands`, and `said`, the clauses of a
training by word; or an error as `Class line:column 'text' start of the message`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from xpsql.platform import errors
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.sql.script import parse_script
from xpsql.platform.training.clauses import CLAUSES
from xpsql.platform.training.plan import Plan

FIXTURES = Path(__file__).parent / "fixtures"
ERROR = re.compile(r"(\w+Error) (\d+):(\d+) ('(?:[^'\\]|\\.)*'|\"[^\"]*\") (.*)")


class Case(NamedTuple):
    script: str
    variables: dict[str, str]
    expectations: list[str]


def cases() -> Iterator[Any]:
    for file in sorted(FIXTURES.glob("*.sql")):
        for block in file.read_text(encoding="utf-8").split("-- case: ")[1:]:
            name, *lines = block.rstrip().split("\n")
            given = [[part.strip() for part in line[9:].split("=", 1)] for line in lines if line.startswith("-- with: ")]
            script = "\n".join(line for line in lines if not line.startswith(("-- with: ", "--> ")))
            expectations = [line.removeprefix("--> ") for line in lines if line.startswith("--> ")]
            yield pytest.param(Case(script, dict(given), expectations), id=f"{file.stem}: {name}")


@pytest.mark.parametrize("case", list(cases()))
def test_a_script_parses_as_its_case_says(case: Case) -> None:
    assert case.expectations, "a case without expectation cannot fail"
    expected = ERROR.fullmatch(case.expectations[0])
    if expected is None:
        check_commands(case)
    else:
        check_error(case, *expected.groups())


def check_commands(case: Case) -> None:
    commands = [step.command for step in parse_script(case.script, case.variables, None, DuckDBEngine.statements)]
    command: Any = commands[-1] if commands else None
    names = {**getattr(command, "__dict__", {}), "command": command, "commands": commands, "said": said(command)}
    for expectation in case.expectations:
        assert eval(expectation, {**names}), f"{expectation}\nbut got {commands}"


def said(command: Any) -> dict[str, Any]:
    """Return the values of a training's clauses by word."""
    plan = getattr(getattr(command, "train", command), "plan", None)
    return {clause.name: plan.clause(clause) for clause in CLAUSES} if isinstance(plan, Plan) else {}


def check_error(case: Case, kind: str, line: str, column: str, text: str, message: str) -> None:
    with pytest.raises(errors.StatementError) as raised:
        parse_script(case.script, case.variables, None, DuckDBEngine.statements)
    error = raised.value
    assert type(error) is getattr(errors, kind)
    assert error.position == (int(line), int(column), ast.literal_eval(text))
    assert error.message.startswith(message)

"""What every statement and table function has to keep, ours and those to come."""

from __future__ import annotations

import pytest

from xpsql.platform.engines.base import Statements
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.errors import StatementError
from xpsql.platform.sql.base import Statement, TableFunction
from xpsql.platform.sql.functions import FUNCTIONS
from xpsql.platform.sql.query import Query
from xpsql.platform.sql.script import parse_script
from xpsql.platform.sql.statements import STATEMENTS
from xpsql.platform.sql.statements.drop_model import DropModel


def test_names_are_unique() -> None:
    assert len({statement.name for statement in STATEMENTS}) == len(STATEMENTS)
    assert len({function.name for function in FUNCTIONS}) == len(FUNCTIONS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_a_statement_documents_itself(statement: Statement) -> None:
    assert statement.name == statement.name.upper()
    assert statement.grammar.startswith(statement.name)
    assert statement.help.endswith(".")


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.name)
def test_a_statement_refuses_what_is_none_at_its_place(statement: Statement) -> None:
    with pytest.raises(StatementError) as raised:
        parse_script(f"SELECT 1;\n{statement.name.lower()} ? ?", {}, None, DuckDBEngine.statements)
    position = raised.value.position
    assert position is not None
    assert (position.line, position.text) == (2, "?")


def test_a_statement_that_an_extension_of_the_engine_may_have_goes_to_it() -> None:
    others = Statements(("DROP",), others=True)
    steps = parse_script("VACUUM t; DROP NAMESPACE n; DROP MODEL m", {}, None, others)
    assert [type(step.command) for step in steps] == [Query, Query, DropModel]
    with pytest.raises(StatementError, match="Expected MODEL, got 'm'"):
        parse_script("CONTINUE m", {}, None, others)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_table_function_documents_itself(function: TableFunction) -> None:
    assert function.name == function.name.upper()
    arguments = {"required": "MODEL name", "optional": "[MODEL name", "none": ")" if function.data == "none" else "TABLE t"}[
        function.model
    ]
    assert function.grammar.startswith(f"ML.{function.name}({arguments}")
    assert function.help.endswith(".")
    assert function.data in ("required", "optional", "none")
    assert ("TABLE t | (query)" in function.grammar) == (function.data != "none" or function.queries)

"""Statements that would take minutes or gigabytes are refused at once, or read in a memory that their length explains."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

import xpsql
from tests.cases import lengthy
from xpsql.platform.cli.failure import describe
from xpsql.platform.engines.duckdb.failures import explained
from xpsql.platform.engines.duckdb.translation.rewrite import Rewriter
from xpsql.platform.engines.duckdb.translation.typer import Typer
from xpsql.platform.engines.spark_sql import lexer
from xpsql.platform.engines.spark_sql.dialect import parse
from xpsql.platform.engines.spark_sql.lexer import Token, scan, tokens_of
from xpsql.platform.engines.spark_sql.limits import MOST_TERMS, MOST_TOKENS
from xpsql.platform.engines.spark_sql.lists import FEWEST, is_packed, unpacked
from xpsql.platform.engines.spark_sql.passage import Passage
from xpsql.platform.errors import NO_MEMORY, StatementError

LITERAL = """
import resource
from xpsql.platform.engines.spark_sql.lexer import tokens_of
text = "SELECT 'a" + "b" * 10_000_000 + "'"
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, used + 200_000_000))
assert [token.kind for token in tokens_of(text)] == ["word", "string"]
"""


def test_a_long_list_is_refused_at_its_first_value_too_many() -> None:
    values = MOST_TOKENS // 2
    with pytest.raises(StatementError, match=f"more than {MOST_TOKENS:,} words.*Put the values into a table"):
        parse(f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(values)))})")


def test_a_script_is_read_no_further_than_its_first_statement_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(passage: Passage) -> Iterator[Token]:
        for token in scan(passage):
            read.append(token.start)
            yield token

    monkeypatch.setattr(lexer, "scan", counted)
    values = ", ".join(["1"] * MOST_TOKENS)
    reported = f"more than {MOST_TOKENS:,} words.*Put the values into a table"
    with xpsql.connect(engine="duckdb") as session, pytest.raises(StatementError, match=reported):
        session.sql(f"SELECT 1; SELECT 1 WHERE 1 IN ({values})")
    assert len(read) == MOST_TOKENS + 4  # those of the first statement, its semicolon, and the first too many


def test_a_statement_is_cut_into_tokens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(passage: Passage) -> Iterator[Token]:
        read.append(passage.text)
        return scan(passage)

    monkeypatch.setattr(lexer, "scan", counted)
    statement = f"SELECT 1 AS x WHERE 1 IN ({', '.join(map(str, range(1000)))})"
    with xpsql.connect(engine="duckdb") as session:
        assert session.sql(statement).arrow().to_pydict() == {"x": [1]}
    assert read.count(statement) == 1
    gc.collect()
    assert statement not in {passage.text for passage in lexer.KEPT}


def test_a_long_list_of_integers_is_one_node_in_every_tree() -> None:
    numbers = ", ".join(["-7", *map(str, range(FEWEST))])
    tree = parse(f"SELECT x IN ({numbers}) FROM t")
    (values,) = tree.find(exp.In).expressions
    assert (is_packed(values), values.sql()) == (True, numbers)
    assert [node.sql() for node in unpacked([values])] == numbers.split(", ")
    rewritten = Rewriter(Typer(duckdb.connect())).query(tree.copy())
    assert sum(1 for _ in rewritten.walk()) < 20


@pytest.mark.parametrize("other", ["NULL", "1.5", "'1'", "99999999999", "x", "1 + 1", "(SELECT 1)"])
def test_a_list_with_anything_else_is_as_written(other: str) -> None:
    values = parse(f"SELECT x IN ({', '.join(map(str, range(FEWEST)))}, {other}) FROM t").find(exp.In).expressions
    assert len(values) == FEWEST + 1


@lengthy
@pytest.mark.parametrize("column", ["id", "CAST(id AS STRING)", "CAST(id AS FLOAT)", "CAST(id AS DECIMAL(9, 1))", "id % 2 = 0"])
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_a_long_list_answers_as_its_parts(column: str, negated: str) -> None:
    numbers = [*range(-5, FEWEST, 2)] * 2
    if column == "id % 2 = 0":
        column = "CAST(IF(id % 2 = 0, NULL, id) AS BIGINT)"
    long = f"{column} {negated}IN ({', '.join(map(str, numbers))})"
    parts = (" AND " if negated else " OR ").join(f"{column} {negated}IN ({n})" for n in sorted(set(numbers)))
    with xpsql.connect(engine="duckdb") as session:
        found = session.sql(f"SELECT {long} AS long, {parts} AS parts FROM range(130) ORDER BY id").arrow()
        assert found["long"].to_pylist() == found["parts"].to_pylist()
        assert len({*found["long"].to_pylist()}) > 1
        assert session.sql("SELECT 1 IN (1, 2)").arrow().column_names == ["(1 IN (1, 2))"]
        named = session.sql(f"SELECT 1 IN ({', '.join(map(str, range(FEWEST)))})").arrow().column_names
        assert named == [f"(1 IN ({', '.join(map(str, range(FEWEST)))}))"]


@pytest.mark.parametrize("operator", ["OR", "AND", "+", "%"])
def test_a_long_chain_of_terms_is_refused_before_it_is_parsed(operator: str) -> None:
    with pytest.raises(StatementError, match="nests too deeply"):
        parse(f"SELECT x {f'{operator} x ' * (MOST_TERMS + 1)}")


def test_deep_parentheses_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(StatementError, match="nests too deeply"):
        parse(f"SELECT {'(' * MOST_TERMS}1{')' * MOST_TERMS}")


def test_many_short_chains_are_no_long_one() -> None:
    conditions = ", ".join("a + b - c" for _ in range(MOST_TERMS))
    branches = " ".join(f"WHEN a = {n} AND b = {n} THEN a + b" for n in range(MOST_TERMS))
    assert len(parse(f"SELECT {conditions}, CASE {branches} END FROM t").expressions) == MOST_TERMS + 1


@pytest.mark.parametrize("values", [[str(n) for n in range(500)], [f"'{n}'" for n in range(500)]])
def test_literals_of_a_list_are_bound_once(values: list[str]) -> None:
    typer = Typer(duckdb.connect())
    Rewriter(typer).query(parse(f"SELECT 1 WHERE 1 IN ({', '.join(values)})"))
    assert len(typer.known) <= 2


def test_the_literals_of_one_kind_have_one_type() -> None:
    typer = Typer(duckdb.connect())
    written = ["1", "999999999", "2147483647", "2147483648", "99999999999", "1.5", "'a'", "''"]
    found = [str(typer.type_of(parse(f"SELECT {value}").expressions[0])) for value in written]
    assert found == [str(duckdb.sql(f"SELECT {value}").types[0]) for value in written]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_literal_takes_memory_of_its_length() -> None:
    subprocess.run([sys.executable, "-c", LITERAL], check=True)


@pytest.mark.parametrize("text", [r"'a\'b'", "'a''b'", "''''", r"'\\'", '"a""b"', "`a``b`", "r'a\\'"])
def test_what_is_quoted_is_one_token(text: str) -> None:
    assert [token.text for token in tokens_of(f"{text} {text}")] == [text, text]


def test_a_name_with_a_nul_is_refused_and_a_value_with_one_is_not(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, engine="duckdb") as session:
        assert session.sql(r"SELECT length('a\0b') AS x").arrow().to_pydict() == {"x": [3]}
        with pytest.raises(StatementError, match="has a NUL, which no name may have"):
            session.sql(r"SELECT 'a\0b'")


@pytest.mark.parametrize(
    "error",
    [
        *(kind("malloc failed") for kind in (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException)),
        ImportError("libjax_common.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."),
    ],
)
def test_the_end_of_memory_is_reported_with_what_to_do(error: Exception) -> None:
    def ends(text: str) -> None:
        with explained(text):
            raise error

    with xpsql.connect(engine="duckdb") as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.engine, "execute", ends)
        with pytest.raises(StatementError, match=r"no memory left for the statement.*raise the limit") as reported:
            session.sql("SELECT 1")
    assert reported.value.position is not None
    assert describe(error, "", "", debug=False) == f"Error: {NO_MEMORY}"  # outside of a statement

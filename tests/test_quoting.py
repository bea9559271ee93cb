"""Secrets of statements, wherever a statement is kept or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.log import session  # noqa: F401  a fixture
from xpsql.platform.cli.journal import Journal
from xpsql.platform.engines.spark.engine import headline
from xpsql.platform.errors import Position, StatementError
from xpsql.platform.excerpts import excerpt
from xpsql.platform.quoting import masked, masked_at
from xpsql.platform.session import Session
from xpsql.warehouse.draft import reason

CREATE = "CREATE TABLE t USING jdbc OPTIONS (user 'ads', password 'swordfish', dbtable 'clicks')"
HIDDEN = CREATE.replace("swordfish", "***")


def test_secrets_that_a_statement_gives_are_not_kept() -> None:
    text = "read_kafka('t', kafka.sasl.username => 'ads', `kafka.sasl.password` => 'sword''fish', x => 'env:NAME')"
    assert masked(text) == text.replace("'sword''fish'", "'***'")
    assert masked('OPTIONS (password "a\\"b", path \'p\')') == "OPTIONS (password '***', path 'p')"
    assert masked("kafka.sasl.jaas.config => 'env:JAAS'") == "kafka.sasl.jaas.config => 'env:JAAS'"


def test_a_secret_that_goes_on_beyond_the_text_is_hidden_too() -> None:
    assert masked("OPTIONS (password 'sword") == "OPTIONS (password '***'"


def test_a_place_in_a_statement_is_found_again_without_its_secrets() -> None:
    for word in ("CREATE", "user", "password", "dbtable", "clicks"):
        text, place = masked_at(CREATE, CREATE.index(word))
        assert text == HIDDEN
        assert place == HIDDEN.index(word)
    assert masked_at(CREATE, CREATE.index("swordfish") + 3) == (HIDDEN, HIDDEN.index("'***'"))


def test_messages_and_excerpts_and_what_a_version_says_of_its_failure_have_no_secrets() -> None:
    error = StatementError("No.", Position(1, 1, CREATE))
    assert "***" in str(error)
    assert "swordfish" not in str(error)
    assert reason(StatementError("No.", Position(1, 1, CREATE))) == str(error)
    assert "swordfish" not in reason(RuntimeError(CREATE))
    assert "swordfish" not in headline(CREATE)
    line, carets = excerpt(CREATE, 1, CREATE.index("dbtable") + 1, "dbtable")
    assert "swordfish" not in line
    assert line[carets.index("^") : carets.rindex("^") + 1] == "dbtable"


def test_the_journal_of_a_run_has_no_secrets(session: Session, tmp_path: Path) -> None:  # noqa: F811
    script = "SELECT 1 AS x; SELECT 'password \"swordfish\"' AS password, 'swordfish' AS y"
    journal = Journal(tmp_path / "journal")
    left = journal.run(session, session.parse(script, {}, None), script)
    assert [next(left).table is not None for _ in range(2)] == [True, True]
    under_way = Journal(tmp_path / "journal").under_way
    assert under_way is not None
    assert under_way.text.startswith("SELECT 'password '***'")
    left.close()


@pytest.mark.parametrize("quote", ["'", '"'])
def test_what_names_a_variable_of_the_environment_is_shown(quote: str) -> None:
    text = f"password => {quote}env:NAME{quote}"
    assert masked(text) == text

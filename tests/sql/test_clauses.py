from __future__ import annotations

import pytest

from xpsql.platform.errors import OptionError, Position, StatementError
from xpsql.platform.sql.clauses import placing, read_clauses
from xpsql.platform.sql.cursor import Cursor
from xpsql.platform.sql.passage import Passage

SCRIPT = "LABEL clack\n  WITH (hashed = (a)) AS\nSELECT 1"
QUERY = Passage.of(SCRIPT).cut(SCRIPT.index("SELECT"), len(SCRIPT))


@pytest.mark.parametrize(
    ("error", "position"),
    [
        (StatementError("LABEL names 'clack'."), Position(1, 1, "LABEL clack")),
        (OptionError("WITH hashed expects a BIGINT column."), Position(2, 3, "WITH (hashed = (a))")),
        (StatementError("The query returns no rows."), Position(3, 1, "SELECT 1")),
        (StatementError("WEIGHT is the parent's."), Position(3, 1, "SELECT 1")),
        (StatementError("LABEL cannot follow SELECT.", Position(1, 8, "1")), Position(3, 8, "1")),
    ],
)
def test_an_error_of_a_training_stands_at_its_clause_or_in_its_query(error: StatementError, position: Position) -> None:
    given = read_clauses(Cursor.of(SCRIPT))
    with pytest.raises(StatementError) as raised, placing(given, QUERY):
        raise error
    assert (type(raised.value), raised.value.message, raised.value.position) == (type(error), error.message, position)

from __future__ import annotations

import pytest

from xpsql.platform.errors import OptionError, Position, StatementError
from xpsql.platform.sql.clauses import placing, read_clauses
from xpsql.platform.sql.cursor import Cursor
from xpsql.platform.sql.passage import Passage

SCRIPT = (
    "LABEL clack\n  WITH (hashed = (a)) USING xnn (hidden = (0)) OPERATORS (admit(within = 'soon'), adam(lr = 1), "
    "momentum) AS\nSELECT 1"
)
QUERY = Passage.of(SCRIPT).cut(SCRIPT.index("SELECT"), len(SCRIPT))


@pytest.mark.parametrize(
    ("error", "position"),
    [
        (StatementError("LABEL names 'clack'."), Position(1, 1, "LABEL clack")),
        (StatementError("WITH cannot be so."), Position(2, 3, "WITH (hashed = (a))")),
        (OptionError("WITH hashed expects a BIGINT column."), Position(2, 9, "hashed = (a)")),
        (StatementError("WITH passes = 3 has no use."), Position(2, 3, "WITH (hashed = (a))")),
        (OptionError("option hidden of algorithm xnn expects units."), Position(2, 34, "hidden = (0)")),
        (OptionError("Option user of algorithm xnn names 'u'."), Position(2, 29, "xnn")),
        (OptionError("option within of operator admit expects a duration."), Position(2, 65, "within = 'soon'")),
        (StatementError("operator momentum needs more."), Position(2, 97, "momentum")),
        (StatementError("operator decay needs more."), Position(3, 1, "SELECT 1")),
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

from __future__ import annotations

import pytest

from xpsql.platform.engines.spark_sql.cursor import Cursor
from xpsql.platform.engines.spark_sql.passage import Passage
from xpsql.platform.errors import OptionError, Position, StatementError, Subject
from xpsql.platform.sql.clauses import placing, read_clauses

SCRIPT = (
    "LABEL clack\n  WITH (hashed = (a)) USING xnn (hidden = (0)) OPERATORS (admit(within = 'soon'), adam(lr = 1), "
    "momentum) AS\nSELECT 1"
)
QUERY = Passage.of(SCRIPT).cut(SCRIPT.index("SELECT"), len(SCRIPT))


def about(subject: Subject) -> OptionError:
    return OptionError("Whatever the message says.", subject=subject)


@pytest.mark.parametrize(
    ("error", "position"),
    [
        (about(Subject("LABEL")), Position(1, 1, "LABEL clack")),
        (about(Subject("WITH")), Position(2, 3, "WITH (hashed = (a))")),
        (about(Subject("WITH", option="hashed")), Position(2, 9, "hashed = (a)")),
        (about(Subject("WITH", option="passes")), Position(2, 3, "WITH (hashed = (a))")),
        (about(Subject("USING", "xnn", "hidden")), Position(2, 34, "hidden = (0)")),
        (about(Subject("USING", "xnn", "user")), Position(2, 29, "xnn")),
        (about(Subject("USING", option="hidden")), Position(2, 34, "hidden = (0)")),
        (about(Subject("USING", option="loss")), Position(2, 23, "USING xnn (hidden = (0))")),
        (about(Subject("OPERATORS", "admit", "within")), Position(2, 65, "within = 'soon'")),
        (about(Subject("OPERATORS", "momentum")), Position(2, 97, "momentum")),
        (about(Subject("OPERATORS", "decay")), Position(3, 1, "SELECT 1")),
        (about(Subject("WEIGHT")), Position(3, 1, "SELECT 1")),
        (StatementError("LABEL is the word that this message begins with."), Position(3, 1, "SELECT 1")),
        (StatementError("LABEL cannot follow SELECT.", Position(1, 8, "1"), Subject("LABEL")), Position(3, 8, "1")),
    ],
)
def test_an_error_of_a_training_stands_at_its_clause_or_in_its_query(error: StatementError, position: Position) -> None:
    given = read_clauses(Cursor.of(SCRIPT))
    with pytest.raises(StatementError) as raised, placing(given, QUERY):
        raise error
    assert (type(raised.value), raised.value.message, raised.value.position) == (type(error), error.message, position)

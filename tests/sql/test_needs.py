"""What `needed_columns` takes from sqlglot's trees; a release of sqlglot that changes them fails here."""

from __future__ import annotations

import pytest

from xpsql.platform.sql.projection import NoTableError, needed_columns

EXACT = {
    "SELECT A, b FROM v": {"a", "b"},
    "SELECT count(*) FROM v": set(),
    "SELECT p.x FROM v AS p WHERE p.y > 1 ORDER BY z": {"p", "x", "y", "z"},
    "SELECT avg(x) OVER (PARTITION BY q ORDER BY w) AS m FROM v": {"x", "q", "w", "m"},
    "SELECT t.*, v.x FROM v JOIN t USING (k)": {"t", "x", "k"},
    "SELECT (SELECT max(z) FROM u WHERE u.k = v.k) AS m FROM v": {"z", "u", "k", "m"},
    "SELECT a FROM v WHERE EXISTS (SELECT * FROM u)": {"a", "u"},
    "INSERT INTO t SELECT x FROM v": {"x"},
    "CREATE TABLE t AS SELECT x FROM v": {"x"},
    "WITH c AS (SELECT a FROM v) SELECT * FROM c": {"a"},
    "SELECT tag FROM v LATERAL VIEW explode(tags) l AS tag": {"tag", "tags", "l"},
}
ALL = [
    "SELECT * FROM v",
    "SELECT p.* FROM v p",
    "SELECT hash(*) FROM v",
    "SELECT count(v.*) FROM v",
    "SELECT x FROM (SELECT * FROM v)",
    "SELECT a FROM t NATURAL JOIN v",
    "SELECT a FROM v PIVOT (sum(x) FOR y IN (1, 2))",
    "SELECT a FROM v AS p (a, b)",
    "TABLE v",
    "EXPLAIN SELECT a FROM v",
    "SELECT this is no SQL FROM v (",
    "SELECT a{:$n -0} b FROM v",
]


@pytest.mark.parametrize(("statement", "names"), EXACT.items())
def test_the_names_of_the_select_that_reads_the_view_are_needed(statement: str, names: set[str]) -> None:
    assert needed_columns(statement, "v") == names


@pytest.mark.parametrize(
    "statement", ["SELECT v", "SELECT 1, v FROM t", "SELECT a FROM t WHERE v.b > 1", "SELECT max(v) FROM t", "SELECT v.*"]
)
def test_a_view_in_place_of_a_value_is_reported(statement: str) -> None:
    with pytest.raises(NoTableError):
        needed_columns(statement, "v")


@pytest.mark.parametrize("statement", ALL)
def test_everything_is_needed_where_names_do_not_tell(statement: str) -> None:
    assert needed_columns(statement, "v") is None

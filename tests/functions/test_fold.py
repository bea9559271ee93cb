"""ML.FOLD over versions: each fold is what SQL says over ML.WEIGHTS, on both engines; functions of files; bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import costly, costly_after_first
from tests.training.log import embedded, log, write
from xpsql.platform.trust import TRUST

MINE = """
import numpy as np
import pyarrow as pa
from dataclasses import dataclass
from xpsql.platform.functions.base import Fold, plus
from xpsql.platform.options import Part, option

@dataclass(frozen=True)
class PositiveOptions:
    above: float = option(0.0, "weights above it are counted")

def positive(options, table):
    '''Count weights above a number.'''
    def add(state, piece):
        return {"rows": state["rows"] + (piece["w"] > options.above).sum()}
    return Fold({"rows": np.zeros(1, np.int64)}, add, MERGE, lambda state: pa.table({"rows": state["rows"]}))

positive = Part("positive", PositiveOptions, positive)
"""


def rows(session: xpsql.Session, query: str) -> list[dict[str, Any]]:
    return session.sql(query).table.to_pylist()


def fold(session: xpsql.Session, written: str) -> list[dict[str, Any]]:
    return rows(session, f"SELECT * FROM ML.FOLD(MODEL m, {written})")


SIZES = ("l1", "l2", "max_abs")
WEIGHTS = "(SELECT *, abs(weights[0]) AS size FROM ML.WEIGHTS(MODEL m) WHERE `table` = 'weights')"


@costly_after_first
def test_norm_by_slot_is_what_sql_says(session: xpsql.Session) -> None:
    expected = rows(
        session,
        f"SELECT slot, count(*) AS rows, sum(size) AS l1, sqrt(sum(size * size)) AS l2, max(size) AS max_abs "
        f"FROM {WEIGHTS} GROUP BY slot ORDER BY slot",
    )
    found = sorted(fold(session, "norm (by = slot)"), key=lambda row: str(row["slot"]))
    assert [row["slot"] for row in found] == [row["slot"] for row in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one["rows"], one["nans"]) == (other["rows"], 0)
        assert [one[name] for name in SIZES] == pytest.approx([other[name] for name in SIZES], rel=1e-6)


@costly
@embedded
def test_sums_extremes_and_the_top_are_what_sql_says(session: xpsql.Session) -> None:
    (counted,) = rows(session, f"SELECT count(*) AS n, sum(count) AS total FROM {WEIGHTS}")
    (found,) = fold(session, "sum (of = count)")
    assert (found["rows"], found["sum"], found["mean"]) == (counted["n"], counted["total"], counted["total"] / counted["n"])
    ordered = rows(session, f"SELECT slot, key, size AS value FROM {WEIGHTS} ORDER BY size DESC, key")
    best, worst = ordered[0], ordered[-1]
    for one, other in zip(fold(session, "top (k = 5)"), ordered, strict=False):
        assert one["key"] == other["key"]
        assert one["slot"] == other["slot"]
        assert one["value"] == pytest.approx(other["value"])
    (ends,) = fold(session, "extremes")
    assert (ends["greatest_key"], ends["least_key"]) == (best["key"], worst["key"])


@embedded
def test_quantiles_of_all_rows_are_exact_and_a_histogram_counts_each_row_once(session: xpsql.Session) -> None:
    (expected,) = rows(session, f"SELECT percentile(size, 0.5) AS p50, percentile(size, 0.9) AS p90 FROM {WEIGHTS}")
    found = fold(session, "quantiles (at = (0.5, 0.9))")
    assert [row["value"] for row in found] == pytest.approx([expected["p50"], expected["p90"]], rel=1e-6)
    bins = fold(session, "histogram (of = count, edges = (1, 2, 10))")
    counts = rows(
        session,
        f"SELECT sum(int(count < 1)) AS a, sum(int(count = 1)) AS b, sum(int(count BETWEEN 2 AND 9)) AS c, "
        f"sum(int(count >= 10)) AS d FROM {WEIGHTS}",
    )
    assert [row["rows"] for row in bins] == list(counts[0].values())


@embedded
def test_the_nearest_rows_have_the_greatest_products(session: xpsql.Session) -> None:
    product = "weights[0] * 0.5 - weights[1] + weights[2] * 2 + weights[3] * 0"
    expected = rows(
        session,
        f"SELECT key, {product} AS score FROM ML.WEIGHTS(MODEL m) WHERE `table` = 'vectors' ORDER BY score DESC LIMIT 4",
    )
    found = fold(session, "nearest (to = (0.5, -1, 2, 0), k = 4, table = vectors)")
    assert [row["key"] for row in found] == [row["key"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx([row["score"] for row in expected], rel=1e-5)


@embedded
def test_python_folds_as_sql_does(session: xpsql.Session) -> None:
    assert session.fold("m", "norm", by="slot").table.to_pylist() == fold(session, "norm (by = slot)")
    assert session.fold("m", "quantiles", version=1, at=[0.5]).table.num_rows == 1
    with pytest.raises(xpsql.OptionError, match="expects a number, a text"):
        session.fold("m", "norm", by=object())
    with pytest.raises(xpsql.OptionError, match=r"Name a function by a text, like 'sum' or 'mine\.py:shrink'.* got type"):
        session.fold("m", dict)  # type: ignore[arg-type]


@embedded
def test_ready_made_ids_come_back_as_ids(session: xpsql.Session, tmp_path: Path) -> None:
    path = write(log(500), tmp_path / "raw.parquet")
    session.sql(f"TRAIN MODEL r USING xftrl LABEL label WITH (raw = (item)) AS SELECT label, item FROM parquet.`{path}`")
    found = session.sql("SELECT * FROM ML.FOLD(MODEL r, top (k = 3, slot = item))").table["key"].to_pylist()
    expected = session.sql("SELECT key FROM ML.WEIGHTS(MODEL r) WHERE slot = 'item' ORDER BY abs(weight) DESC LIMIT 3").table
    assert found == expected["key"].to_pylist()


@embedded
def test_a_fold_of_a_file_is_held_to_the_contract_before_it_sees_a_model(session: xpsql.Session, tmp_path: Path) -> None:
    good, bad = tmp_path / "mine.py", tmp_path / "bad.py"
    good.write_text(MINE.replace("MERGE", "plus"))
    bad.write_text(MINE.replace("MERGE", "lambda one, other: {'rows': one['rows'] - other['rows']}"))
    (counted,) = rows(session, f"SELECT sum(int(weights[0] > 0.1)) AS n FROM {WEIGHTS}")
    assert fold(session, f"'{good}:positive' (above = 0.1)") == [{"rows": counted["n"]}]
    with pytest.raises(xpsql.StatementError, match=r"breaks the contract of folds, .*merge"):
        fold(session, f"'{bad}:positive'")
    with pytest.raises(xpsql.OptionError, match="must have a Part named positve"):
        fold(session, f"'{good}:positve'")
    assert TRUST._seen, "a text that a statement names is trusted"


REFUSED = [
    ("nrm", "There is no fold 'nrm'. Did you mean norm?", "nrm"),
    ("norm (by = slit)", "does not take 'slit'. Did you mean slot?", "by = slit"),
    ("norm (table = vecs)", "is 'vecs'; version 1 of m has weights, vectors", "table = vecs"),
    ("sum (of = zz)", "which table weights does not have. It takes one of abs_w", "of = zz"),
    ("sum (of = w, table = vectors)", "has 4 floats in table vectors", "of = w"),
    ("nearest (to = (1, 2), table = vectors)", "has 2 numbers; rows of table vectors have 4", "to = (1, 2)"),
    ("nearest (to = (1, a, 2, 3), table = vectors)", "expects numbers", "to = (1, a, 2, 3)"),
    ("dot (left = z, right = y)", "is 'y'; table weights has", "right = y"),
    ("top (slot = itm)", "names 'itm', which has no rows. Did you mean item?", "slot = itm"),
    ("quantiles (at = (0.5, 2))", "expects numbers from 0 to 1", "at = (0.5, 2)"),
    ("histogram (edges = (1, 0))", "expects ascending numbers", "edges = (1, 0)"),
    ("'none.py:f'", "cannot be read: No such file", "'none.py:f'"),
]


@embedded
def test_bad_folds_are_refused_where_they_are_written(session: xpsql.Session) -> None:
    for written, message, text in REFUSED:
        with pytest.raises(xpsql.StatementError) as caught:
            fold(session, written)
        assert message in caught.value.message
        assert caught.value.position is not None
        assert caught.value.position.text == text

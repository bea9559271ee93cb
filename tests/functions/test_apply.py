"""ALTER MODEL ... APPLY: each update is what SQL says of the version before, on both engines; what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy
from tests.training.log import embedded, log, write

HALVE = """
from dataclasses import dataclass
from xpsql.platform.functions.base import Update
from xpsql.platform.options import Part, option

@dataclass(frozen=True)
class HalveOptions:
    by: float = option(2.0, "what weights are divided by", minimum=1)

def halve(options, table):
    '''Divide weights.'''
    return Update(lambda rows, context: {**rows, "w": rows["w"] / options.by - SHIFT})

halve = Part("halve", HalveOptions, halve)
"""


def weights(session: xpsql.Session, version: int, table: str = "weights") -> dict[tuple[str, int], Any]:
    found = session.sql(
        f"SELECT slot, key, weights, count, updates, last_seen FROM ML.WEIGHTS(MODEL m VERSION {version}) "
        f"WHERE `table` = '{table}'"
    )
    rows = found.table.to_pylist()
    return {(row["slot"], row["key"]): (np.array(row["weights"], np.float32), row["count"], row["updates"]) for row in rows}


def alter(session: xpsql.Session, written: str) -> dict[str, Any]:
    (row,) = session.sql(f"ALTER MODEL m APPLY {written}").table.to_pylist()
    return dict(row)


@lengthy
@costly_after_first
@pytest.mark.parametrize(
    ("written", "formula"),
    [
        ("scale (factor = 0.5)", lambda w: w * np.float32(0.5)),
        ("clip (max = 0.05)", lambda w: w.clip(-0.05, 0.05)),
        ("zero (below = 0.1)", lambda w: np.where(np.abs(w) < np.float32(0.1), 0, w)),
        ("clip (max = 0.1, by = norm)", lambda w: w * min(1, 0.1 / max(float(np.sqrt((w * w).sum())), 1e-30))),
        ("quantise (bits = 8)", lambda w: np.round(w / (np.abs(w).max() / 127)) * (np.abs(w).max() / 127)),
    ],
)
@embedded
def test_an_update_does_to_every_row_what_its_formula_says(session: xpsql.Session, written: str, formula: Any) -> None:
    made = alter(session, written)
    for table in ("weights", "vectors"):
        before, after = weights(session, 1, table), weights(session, 2, table)
        assert before.keys() == after.keys()
        for key, (w, count, updates) in before.items():
            np.testing.assert_allclose(after[key][0], formula(w), 1e-5, 1e-7)
            assert after[key][1:] == (count, updates)
    assert made["version"] == 2
    assert made["removed"] == 0
    assert 0 < made["changed"] <= 2 * len(before)


@costly
def test_where_says_which_rows_and_both_engines_agree(session: xpsql.Session) -> None:
    made = alter(session, "scale (factor = 0.5), clip (max = 0.2) WHERE count < 10 AND slot <> 'user'")
    before, after, changed = weights(session, 1), weights(session, 2), 0
    for (slot, key), (w, count, _) in before.items():
        if count < 10 and slot != "user":
            np.testing.assert_allclose(after[slot, key][0], (w * np.float32(0.5)).clip(-0.2, 0.2), 1e-6, 1e-7)
            changed += 1
        else:
            assert after[slot, key][0].tobytes() == w.tobytes(), "a row that WHERE leaves out has the bits that it had"
    assert changed
    assert made["changed"] >= changed


@costly
@embedded
def test_forgotten_slots_and_pruned_rows_go_from_all_tables(session: xpsql.Session) -> None:
    before = weights(session, 1)
    made = alter(session, "forget (slot = item), prune (below = 0.05)")
    kept = {key for key, (w, *_) in before.items() if key[0] != "item" and abs(w[0]) >= np.float32(0.05)}
    assert weights(session, 2).keys() == weights(session, 2, "vectors").keys() == kept
    assert (made["features"], made["removed"]) == (len(kept), 2 * (len(before) - len(kept)))


@costly
@embedded
def test_ftrl_goes_on_from_the_weights_that_an_update_left(session: xpsql.Session, tmp_path: Path) -> None:
    alter(session, "scale (factor = 0.5)")
    (row,) = session.sql("SELECT * FROM ML.FOLD(MODEL m VERSION 1, dot (left = w, right = w))").table.to_pylist()
    (half,) = session.sql("SELECT * FROM ML.FOLD(MODEL m VERSION 2, dot (left = w, right = w))").table.to_pylist()
    assert half["dot"] == pytest.approx(row["dot"] / 4, rel=1e-5)
    path = write(log(300, seed=2), tmp_path / "more.parquet")
    session.sql(f"CONTINUE MODEL m AS SELECT label, ts, user, item, tags FROM parquet.`{path}`")
    before, after = weights(session, 2), weights(session, 3)
    untouched = [key for key in before if after[key][1] == before[key][1]]
    assert untouched
    assert all(after[key][0] == pytest.approx(before[key][0], rel=1e-5) for key in untouched)


@costly
@embedded
def test_a_new_version_says_what_was_applied_and_predicts(session: xpsql.Session) -> None:
    alter(session, "scale (factor = 0)")
    manifest = session.models.version("m").manifest
    assert [(one.name, dict(one.options)) for one in manifest.learned.origin.applied] == [("scale", {"factor": 0})]
    assert manifest.parent == 1
    found = session.sql(
        "SELECT predicted_label FROM ML.PREDICT(MODEL m, (SELECT 'u1' AS user, 2 AS item, array('t1') AS tags))"
    )
    assert found.table["predicted_label"].to_pylist() == pytest.approx([0.5])
    session.sql("SHRINK MODEL m WHERE count < 3")
    assert session.models.version("m").manifest.learned.origin.applied == ()


@costly
@embedded
def test_python_applies_as_sql_does(session: xpsql.Session) -> None:
    (made,) = session.apply("m", "scale", factor=0.5, where="count < 3", table="vectors").table.to_pylist()
    assert made["version"] == 2
    assert session.models.version("m").manifest.learned.origin.applied[0].options == {"factor": 0.5, "table": "vectors"}
    before = weights(session, 1)
    assert all(before[key][0] == value[0] for key, value in weights(session, 2).items()), "another table's rows stay"


@costly
@embedded
def test_vectors_that_are_drawn_anew_depend_on_the_seed_alone(session: xpsql.Session) -> None:
    alter(session, "reinit (seed = 3, table = vectors)")
    again = weights(session, 2, "vectors")
    alter(session, "reinit (seed = 3, table = vectors)")
    assert all(value[0].tobytes() == again[key][0].tobytes() for key, value in weights(session, 3, "vectors").items())
    assert any((value[0] != again[key][0]).any() for key, value in weights(session, 1, "vectors").items())


@costly
@embedded
def test_an_update_of_a_file_that_looks_at_other_rows_is_refused(session: xpsql.Session, tmp_path: Path) -> None:
    good, bad = tmp_path / "mine.py", tmp_path / "bad.py"
    good.write_text(HALVE.replace("SHIFT", "0"))
    bad.write_text(HALVE.replace("SHIFT", "rows['w'].mean(0)"))
    alter(session, f"'{good}:halve' (by = 4)")
    manifest = session.models.version("m").manifest
    assert len(manifest.learned.origin.applied[0].sha256) == 64
    with pytest.raises(xpsql.StatementError, match="breaks the contract of updates, a row depends on itself alone") as caught:
        alter(session, f"'{bad}:halve'")
    assert caught.value.position is not None
    assert caught.value.position.text == f"'{bad}:halve'"
    assert [version.number for version in session.models.versions("m")] == [1, 2], "nothing was made"


REFUSED = [
    ("scael (factor = 2)", "There is no update 'scael'. Did you mean scale?", "scael"),
    ("scale (factor = 'x')", "expects a float", "factor = 'x'"),
    ("scale (factor = 2, table = vecs)", "is 'vecs'; version 1 of m has weights, vectors", "table = vecs"),
    ("clip (max = 0)", "expects a value in (0, inf)", "max = 0"),
    ("forget", "is missing: name the slot", "forget"),
    ("clip, forget (slot = itm)", "names 'itm', which has no rows. Did you mean item?", "slot = itm"),
    ("scale (factor = 2) WHERE cuont < 2", "cuont", "cuont"),
    ("scale (factor = 2) WHERE count", "takes a condition, which is BOOLEAN; this one is BIGINT", "count"),
]


@embedded
def test_bad_updates_are_refused_where_they_are_written(session: xpsql.Session) -> None:
    for written, message, text in REFUSED:
        with pytest.raises(xpsql.StatementError) as caught:
            alter(session, written)
        assert message in caught.value.message
        assert caught.value.position is not None
        assert caught.value.position.text == text
        assert len(session.models.versions("m")) == 1


@lengthy
@embedded
def test_weights_that_are_no_numbers_make_no_version(session: xpsql.Session) -> None:
    for _ in range(7):
        alter(session, "scale (factor = 1000000)") if len(session.models.versions("m")) < 7 else None
    with pytest.raises(xpsql.StatementError, match="make weights of table weights NaN or infinite"):
        alter(session, "scale (factor = 1000000)")


@embedded
def test_a_model_of_another_package_is_refused(session: xpsql.Session, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    path = write(log(500), tmp_path / "x.parquet")
    session.sql(f"TRAIN MODEL x USING xgboost LABEL label AS SELECT label, user, price FROM parquet.`{path}`")
    with pytest.raises(xpsql.ModelError, match="rows of xgboost are the numbers of its categories"):
        session.sql("ALTER MODEL x APPLY scale (factor = 2)")


@embedded
def test_what_is_known_of_features_without_a_row_is_forgotten_with_a_slot_and_kept_by_other_updates(
    session: xpsql.Session, tmp_path: Path
) -> None:
    path = write(log(500), tmp_path / "rare.parquet")
    query = f"SELECT label, user, item FROM parquet.`{path}`"
    session.sql(f"TRAIN MODEL rare USING xftrl OPERATORS (admit (min_count = 5)) LABEL label AS {query}")
    session.sql("ALTER MODEL rare APPLY prune (below = 0.01)")
    assert session.models.version("rare").stored("candidates")
    session.sql("ALTER MODEL rare APPLY forget (slot = item)")
    assert not session.models.version("rare").stored("candidates")
    session.sql(f"CONTINUE MODEL rare AS {query}")


@embedded
def test_apply_and_fold_stay_names_of_columns_and_tables(session: xpsql.Session) -> None:
    session.register("apply", pa.table({"label": [0, 1] * 50, "apply": ["a", "b"] * 50, "fold": ["c", "d"] * 50}))
    session.sql("TRAIN MODEL apply USING xftrl LABEL label IGNORE (fold) AS SELECT label, apply, fold FROM apply")
    session.sql("ALTER MODEL apply APPLY clip (slot = apply)")
    found = session.sql("SELECT apply.apply FROM apply WHERE apply.apply = 'a' LIMIT 1").table
    assert found.to_pydict() == {"apply": ["a"]}

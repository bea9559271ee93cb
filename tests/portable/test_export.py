"""EXPORT MODEL ... FORMAT serving | onnx: files of rows, what is refused, and the pages' examples."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import costly, lengthy
from xpsql.algorithms.traits import Traits
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.images.layout import LOAD, PLACES, RowColumn, RowsLayout, opened, placed, write_rows
from xpsql.platform.portable import export, parity
from xpsql.platform.portable.export import found_in
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps._native import Image
from xpsql.platform.ps.keys import feature_keys

ROOT = Path(__file__).parents[2]
NEEDS_ONNX = "the packages of the extra onnx"
RANDOM = np.random.default_rng(5)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    """Give a session with the model of the page."""
    pytest.importorskip("jax2onnx", reason=NEEDS_ONNX)
    text = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    statements = re.findall(r"```sql\n(.*?)EXPORT", text, re.DOTALL)[0]
    with xpsql.connect(tmp_path_factory.mktemp("exports"), "duckdb", SilentReporter()) as session:
        session.sql(statements)
        yield session


@pytest.mark.parametrize("count", [0, 1, 5, 1000, 100_000])
def test_every_key_has_its_row_and_others_have_zeros(tmp_path: Path, count: int) -> None:
    keys = np.unique(RANDOM.integers(1 << 10, 1 << 64, count, np.uint64))
    values = RANDOM.normal(size=(len(keys), 3)).astype(np.float32)

    def fill(place: Any, rows: Any) -> None:
        rows[place] = values

    layout, place = placed(keys, (RowColumn("t", "w", 0, 3),), False, 0, bytes(16))
    write_rows(tmp_path / "rows.bin", layout, keys, place, fill)
    found, memory = opened(tmp_path / "rows.bin")
    assert found == layout
    rows = Image(memory)
    assert np.array_equal(found_in(rows, keys.view(np.int64)), values)
    others = RANDOM.integers(-(1 << 63), 1 << 63, 1000)
    assert not found_in(rows, others).any()
    assert not found_in(rows, np.array([[layout.absent]])).any()
    if count == 100_000:
        assert count / layout.places > LOAD * 0.99


def test_keys_that_are_no_hashes_fail_the_export_rather_than_lose_one() -> None:
    primes = placed(np.arange(100, dtype=np.uint64), (), False, 0, bytes(16))[0].primes
    clash = np.arange(2 * PLACES + 1, dtype=np.uint64) * np.uint64(primes[0] * primes[1])
    from xpsql.platform.ps._native import place_two_choice

    with pytest.raises(ValueError, match="too full"):
        place_two_choice(clash, *primes)


@lengthy
def test_a_file_of_rows_says_what_it_is(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/half' FORMAT serving WITH (fp16 = true)")
    model = json.loads((tmp_path / "half" / "model.json").read_text())
    (reported,) = model["rows"]
    layout, _ = opened(tmp_path / "half" / "rows.bin")
    columns = tuple(RowColumn(**column) for column in reported["columns"])
    reported_of = RowsLayout(
        reported["rows"], tuple(reported["primes"]), columns, reported["type"] == "float16", model["absent"], layout.training
    )
    assert layout == reported_of
    assert layout.half
    assert 0 < model["difference_by_fp16"] < 0.01
    assert model["largest_difference"] <= parity.TOLERANCE


@costly
def test_the_reader_of_the_examples_finds_the_predictions_and_the_key_of_the_page(
    session: xpsql.Session, tmp_path: Path
) -> None:
    (reported,) = session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT serving").arrow().to_pylist()
    assert reported["rows"] == json.loads((tmp_path / "out" / "model.json").read_text())["rows"][0]["rows"]
    command = [sys.executable, str(ROOT / "examples" / "portable" / "reader.py"), str(tmp_path / "out")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.fullmatch(r"predicted_click: 1000 rows, largest difference \d(\.\d)?e-0[78]\n", said)
    shown = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
    assert re.search(r"predicted_click: 1000 rows, largest difference 6e-08\n", shown)
    keys = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "portable" / "keys.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert keys.stdout in shown
    assert len((ROOT / "examples" / "portable" / "reader.py").read_text().splitlines()) <= 165


@costly
def test_a_delta_has_what_differs_and_is_read_over_its_base(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql("TRAIN MODEL later USING fm LABEL click AS SELECT * FROM log")
    session.sql("CONTINUE MODEL later AS SELECT click, 'new' AS user, ad, price FROM log LIMIT 3")
    parity_of = "WITH (parity = 'SELECT * FROM log LIMIT 100')"
    whole = rows_of(session, f"EXPORT MODEL later VERSION 1 TO '{tmp_path}/1' FORMAT serving {parity_of}")
    changed = rows_of(
        session, f"EXPORT MODEL later VERSION 2 TO '{tmp_path}/2' FORMAT serving DELTA FROM VERSION 1 {parity_of}"
    )
    assert 0 < changed < whole
    assert sorted(path.name for path in (tmp_path / "2").iterdir()) == [
        "READY", "changes.bin", "dense.onnx", "model.json", "parity.parquet",
    ]  # fmt: skip
    command = [sys.executable, str(ROOT / "examples" / "portable" / "reader.py"), str(tmp_path / "2"), str(tmp_path / "1")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert re.fullmatch(r"predicted_click: 100 rows, largest difference \d(\.\d)?e-0[78]\n", said)
    session.sql(f"EXPORT MODEL later VERSION 1 TO '{tmp_path}/back' FORMAT serving DELTA FROM VERSION 2 {parity_of}")
    layout, memory = opened(tmp_path / "back" / "changes.bin")
    gone = layout.keys(memory)[~layout.floats(memory)[:-1].any(axis=1)]
    assert np.isin(feature_keys("user", pa.array(["new"])).view(np.int64), gone).all(), "a row that went is zeros"
    with pytest.raises(StatementError, match="FORMAT serving"):
        session.sql(f"EXPORT MODEL later TO '{tmp_path}/3' FORMAT onnx DELTA FROM VERSION 1")


def rows_of(session: xpsql.Session, statement: str) -> int:
    (reported,) = session.sql(statement).arrow().to_pylist()
    return int(reported["rows"])


@lengthy
def test_parity_is_of_the_rows_that_the_statement_gives(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(
        f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx WITH (parity = 'SELECT * FROM log WHERE user = ''u3'' LIMIT 7')"
    )
    table = pq.read_table(tmp_path / "out" / "parity.parquet")
    assert table["user"].to_pylist() == ["u3"] * 7
    wanted = session.sql("SELECT * FROM ML.PREDICT(MODEL ctr, (SELECT * FROM log WHERE user = 'u3' LIMIT 7))").arrow()
    assert np.allclose(table["predicted_click"].to_numpy(), wanted["predicted_click"].to_numpy(), atol=1e-6)


def test_a_graph_that_gives_other_predictions_is_not_exported(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpsql.platform.portable.export.said_by", lambda *_: {"predicted_click": np.zeros(1000, np.float32)})
    with pytest.raises(ModelError, match=r"model\.onnx in onnxruntime differ by 0\.\d+ from the model"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_refused_before_anything_is_written(session: xpsql.Session, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(ModelError, match="mine exists and is no export as serving or onnx"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/mine' FORMAT serving")
    with pytest.raises(StatementError, match=r"The query of parity, whose rows .* nowhere"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT serving WITH (parity = 'SELECT * FROM nowhere')")
    with pytest.raises(StatementError, match=r"no rows, whose predictions could be compared"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT serving WITH (parity = 'SELECT * FROM log LIMIT 0')")
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT serving")
    with pytest.raises(ModelError, match=r"has an export as serving\. .* FORMAT onnx WITH \(replace = true\)"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx")
    session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx WITH (replace = true)")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "READY", "model.json", "model.onnx", "parity.parquet", "rows.bin",
    ]  # fmt: skip


@costly
def test_slots_with_a_name_that_a_graph_has_are_refused_before_anything_is_written(
    session: xpsql.Session, tmp_path: Path
) -> None:
    names = {
        "map('k', 1F) AS w, user AS `w.weight`": "the weights of w 'w.weight'",
        "user AS predicted_click": "a prediction 'predicted_click'",
        "user AS `core/x`": "what is inside it 'core/x'",
    }
    for columns, words in names.items():
        session.sql(f"TRAIN OR REPLACE MODEL meeting USING xftrl LABEL click AS SELECT click, {columns} FROM log")
        for kind in ("onnx", "serving"):
            with pytest.raises(ModelError, match=f"calls {words}, and the model has a slot of that name"):
                session.sql(f"EXPORT MODEL meeting TO '{tmp_path}/meeting' FORMAT {kind}")
    assert not (tmp_path / "meeting").exists()


def test_what_runs_in_another_package_is_refused_before_anything_is_written(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = export.algorithm_of
    monkeypatch.setattr(export, "algorithm_of", lambda manifest: replace(made(manifest), traits=Traits(outside="PyTorch")))
    for kind in ("serving", "onnx"):
        text = f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT {kind}"
        with pytest.raises(StatementError, match=rf"FORMAT {kind} needs functions of JAX.* runs in PyTorch\. Write") as raised:
            session.sql(text)
        assert raised.value.position is not None
        assert raised.value.position.column == text.index(kind, text.index("FORMAT")) + 1
    assert list(tmp_path.iterdir()) == []


def test_without_the_packages_the_statement_says_what_to_install(
    session: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    with pytest.raises(StatementError, match=r"pip install 'xpsql\[onnx\]'"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx")


@costly
def test_an_export_answers_the_intervals_of_predict(session: xpsql.Session, tmp_path: Path) -> None:
    rows = "SELECT user, ad, price, ad * 2.0 + price + id % 17 / 10.0 AS paid, ad % 5 AS calls FROM {}"
    session.sql(
        "CREATE OR REPLACE TEMPORARY VIEW paid AS "
        + rows.format("(SELECT *, row_number() OVER (ORDER BY user, ad, price) AS id FROM log)")
    )
    for model, using, label in (
        ("m", "linear_regression", "paid"),
        ("c", "fm (loss = 'poisson')", "calls"),
        ("q", "xftrl (loss = 'quantile', at = 0.9)", "paid"),
    ):
        session.sql(f"TRAIN OR REPLACE MODEL {model} USING {using} LABEL {label} AS SELECT user, ad, price, {label} FROM paid")
        wanted = session.sql(f"SELECT * FROM ML.PREDICT(MODEL {model}, (SELECT * FROM paid LIMIT 200), INTERVAL 0.8)").arrow()
        names = [f"predicted_{label}{bound}" for bound in ("", "_low", "_high")]
        for kind in ("serving", "onnx"):
            folder = tmp_path / model / kind
            given = "interval = 0.8, parity = 'SELECT * FROM paid LIMIT 200'"
            session.sql(f"EXPORT MODEL {model} TO '{folder}' FORMAT {kind} WITH ({given})")
            said = (
                subprocess.run(
                    [sys.executable, str(ROOT / "examples" / "portable" / "reader.py"), str(folder)],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=120,
                )
                if kind == "serving"
                else None
            )
            assert said is None or all(f"{name}: 200 rows" in said.stdout for name in names)
            found, described = pq.read_table(folder / "parity.parquet"), json.loads((folder / "model.json").read_text())
            assert [output["name"] for output in described["outputs"]] == names
            assert described["largest_difference"] <= parity.TOLERANCE
            for name in names:
                np.testing.assert_allclose(found[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-6, atol=1e-6)
            assert described["intervals"]["level"] == 0.8


def test_intervals_that_a_version_has_not_are_refused_before_anything_is_written(
    session: xpsql.Session, tmp_path: Path
) -> None:
    with pytest.raises(StatementError, match="INTERVAL is for labels that are numbers, and ctr has none"):
        session.sql(f"EXPORT MODEL ctr TO '{tmp_path}/out' FORMAT onnx WITH (interval = 0.9)")
    assert not (tmp_path / "out").exists()

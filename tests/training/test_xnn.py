"""Networks in statements: they learn from every kind of slot, repeat exactly, and go on from version to version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, lengthy, slow_elsewhere
from tests.training.log import log, write
from tests.training.log import session as on_each
from xpsql.platform.errors import OptionError
from xpsql.platform.training.row_files.columns import values
from xpsql.warehouse.dense import read_dense
from xpsql.warehouse.version import Version

__all__ = ["on_each"]

ALL = "SELECT * FROM parquet.`{}`"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(log(6_000), tmp_path / "log.parquet")


def train(
    session: xpsql.Session, path: Path, model: str, options: str = "", settings: str = "batch_size = 200"
) -> dict[str, Any]:
    text = f"TRAIN MODEL {model} USING xnn ({options or 'dim = 4'}) IGNORE (ts) WITH ({settings}) AS {ALL.format(path)}"
    (row,) = session.sql(text).arrow().to_pylist()
    return dict(row)


def predictions(session: xpsql.Session, path: Path, model: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    text = f"SELECT predicted_label FROM ML.PREDICT(MODEL {model}, ({ALL.format(path)}))"
    return session.sql(text).arrow()["predicted_label"].to_numpy()


@lengthy
@costly_after_first
@pytest.mark.parametrize("interaction", ["none", "bi", "pairs"])
def test_every_kind_of_slot_is_learned_from(session: xpsql.Session, path: Path, tmp_path: Path, interaction: str) -> None:
    options = f"dim = 4, hidden = (16, 8), interaction = '{interaction}', learning_rate = 0.01"
    train(session, path, "m", options, "batch_size = 50")
    test = write(log(3_000, seed=2), tmp_path / "test.parquet")
    (row,) = session.sql(f"SELECT * FROM ML.EVALUATE(MODEL m, ({ALL.format(test)}))").arrow().to_pylist()
    assert row["auc"] > 0.7
    assert row["pcopc"] == pytest.approx(1, abs=0.12)


@costly
@slow_elsewhere
def test_dropout_repeats_with_the_seed(on_each: xpsql.Session, path: Path) -> None:
    for model, seed in (("a", 7), ("b", 7), ("c", 8)):
        train(on_each, path, model, "dim = 4, dropout = 0.5", f"batch_size = 200, passes = 2, seed = {seed}")
    first, again, other = (predictions(on_each, path, model) for model in "abc")
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@costly
def test_a_continued_network_goes_on(session: xpsql.Session, path: Path) -> None:
    train(session, path, "m")
    session.sql(f"CONTINUE MODEL m IGNORE (ts) WITH (batch_size = 200) AS {ALL.format(path)}")
    stored = read_dense(session.models.version("m", 2).stored("dense"))
    assert stored["hidden_1.kernel", "state_count"] == 60
    assert stored["hidden_1.kernel", "w"].shape == (4 * 4 + 4, 128)


def test_layers_that_are_none_are_refused_before_anything_starts(session: xpsql.Session, path: Path) -> None:
    with pytest.raises(OptionError, match="hidden of algorithm xnn expects whole numbers"):
        train(session, path, "m", "hidden = (0, 4)")
    assert session.models.names() == []


@costly
def test_features_that_tell_much_have_long_vectors(session: xpsql.Session, path: Path) -> None:
    train(session, path, "m", "dim = 4, long_dim = 6, long_information = 3")
    version = session.models.version("m")
    assert {table.name: table.dim for table in version.manifest.tables} == {"weights": 1, "vectors": 4, "long_vectors": 6}
    reported = session.sql("SELECT table, key, information FROM ML.WEIGHTS(MODEL m)").arrow().to_pylist()
    long = {row["key"] for row in reported if row["table"] == "long_vectors"}
    information = {row["key"]: row["information"] for row in reported if row["table"] == "weights"}
    assert 0 < len(long) < len(information) / 2
    assert {key for key, value in information.items() if value > 12} <= long
    assert len(predictions(session, path, "m")) == 6_000


@costly
@pytest.mark.parametrize("algorithm", ["xftrl", "xnn (dim = 4)"])
def test_several_labels_are_learned_at_once(session: xpsql.Session, tmp_path: Path, algorithm: str) -> None:
    table = log(6_000)
    dear = pa.array(np.nan_to_num(table["price"].to_numpy()) > 7)
    query = ALL.format(write(table.append_column("dear", dear.cast(pa.int32())), tmp_path / "log.parquet"))
    session.sql(f"TRAIN MODEL m USING {algorithm} LABEL label, dear IGNORE (ts) WITH (batch_size = 100) AS {query}")
    measured = session.sql(
        "SELECT auc(label, predicted_label) AS label, auc(dear, predicted_dear) AS dear, auc(label, predicted_dear) AS wrong "
        f"FROM ML.PREDICT(MODEL m, ({query}))"
    )
    (row,) = measured.arrow().to_pylist()
    assert row["label"] > 0.7
    assert row["dear"] > 0.9
    assert row["wrong"] < 0.6


@costly
def test_the_state_of_vectors_stays_as_it_was_in_a_shrunk_version(on_each: xpsql.Session, path: Path) -> None:
    train(on_each, path, "m")
    on_each.sql("SHRINK MODEL m WHERE `table` = 'vectors' AND updates < 20")
    whole, shrunk = (state_by_key(version) for version in on_each.models.versions("m"))
    assert 0 < len(shrunk) < len(whole)
    assert shrunk.items() <= whole.items()
    assert len(set(shrunk.values())) > 1


def state_by_key(version: Version) -> dict[int, tuple[tuple[float, ...], ...]]:
    """Return the floats of each row of the vectors: their optimizer's state, and what they are."""
    found = {}
    dims = version.manifest.table("vectors").columns
    for batch in version.rows("vectors"):
        columns = [values(batch[name]).reshape(-1, dim).tolist() for name, dim in dims.items()]
        found |= {key: tuple(map(tuple, row)) for key, *row in zip(batch["key"].to_pylist(), *columns, strict=True)}
    return found

"""Other tools beside ours: those that are not here are named, and those that are get the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.figures import Figure, Note
from benchmarks.log import make
from benchmarks.peers import figures
from benchmarks.peers.figures import Peer, Trained, beside
from benchmarks.peers.rows import BUCKETS, read
from benchmarks.peers.texts import write
from benchmarks.process import Measured


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    make(folder, [("train", 500)], seed=7)
    return folder / "train.parquet"


def test_tools_are_compared_where_they_are_installed_and_named_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Peer("Here", "json", lambda log, folder: Trained(10.0, 8.0, 0.7), "fm", 2.5)
    monkeypatch.setattr(figures, "PEERS", (here, here._replace(name="Away", needs="no_such_program")))
    reported = list(beside({"fm": Measured(2.0, 4.0, 0, "")}, 1000, tmp_path, tmp_path, 1))
    found = {line.name: line.value for line in reported if isinstance(line, Figure)}
    assert found["Here: one core"] == 100
    assert found["fm: times Here"] == 5
    assert found["fm: times Here, CPU"] == 2
    assert [line.text for line in reported if isinstance(line, Note)] == [
        "Away: not installed (ModuleNotFoundError: No module named 'no_such_program')"
    ]


def test_equal_values_of_a_column_have_equal_ids_and_null_is_one(log: Path) -> None:
    ids, labels = read(log)
    table = pq.read_table(log)
    assert labels.tolist() == table["label"].to_pylist()
    assert ids.min() >= 0
    assert ids.max() < BUCKETS
    for column, name in enumerate(n for n in table.column_names if n not in ("label", "ts")):
        values = table[name].to_pylist()
        by_value = {value: ids[i, column] for i, value in enumerate(values)}
        np.testing.assert_array_equal(ids[:, column], [by_value[value] for value in values])
        assert len(set(by_value.values())) > 0.9 * len(by_value)


@pytest.mark.parametrize("form", ["alphafm", "libsvm"])
def test_a_line_of_text_has_the_label_and_every_feature(form: str, log: Path, tmp_path: Path) -> None:
    write(log, form, tmp_path / "text")
    lines = (tmp_path / "text").read_text().splitlines()
    ids, labels = read(log)
    assert [int(line.split()[0]) for line in lines] == labels.astype(int).tolist()
    assert all(len(line.split()) == 40 and line.endswith(":1") for line in lines)
    if form == "libsvm":
        assert [int(word.split(":")[0]) for word in lines[0].split()[1:]] == ids[0].tolist()

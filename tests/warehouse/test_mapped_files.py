"""Every file that the product maps into memory: the list of the places, and what is said where one is cut off meanwhile."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xpsql
from tests.cases import lengthy
from xpsql.platform.engines import parquet_files
from xpsql.platform.engines.parquet_files import parquet_file
from xpsql.platform.engines.parquet_scan import staged_scan
from xpsql.platform.errors import DataError
from xpsql.platform.input.items import write_items
from xpsql.warehouse import mapped

ROOT = Path(__file__).parents[2]
MAPS = re.compile(r"memmap\(|memory_map|mmap_mode|\bmmap\.mmap\(|(?<![.\w])mmap\(|(?<!class )\bMapping\(\w")
LOOKED_AT = ("platform/**/*.py", "algorithms/**/*.py", "warehouse/**/*.py", "**/native/*.[ch]pp", "examples/**/*.py")
MAPPED = {
    "warehouse/native/mapping.cpp": "the guard itself: zeros in place of what is gone, and a mark",
    "warehouse/mapped.py": "under the guard; whoever reads asks whether it was cut off",
    "platform/ps/native/memory.hpp": "memory without a file",
    "platform/images/layout.py": "a file without a name, whose blocks are there before it is mapped",
    "platform/portable/xpsql_reader/reader.py": "a program of its own, which shows how a file of rows is read without xpsql",
    "examples/portable/reader.py": "the same file",
}
"""Files of code that map one, and why nobody is ended by SIGBUS there."""


@lengthy
def test_the_list_has_every_place_that_maps_a_file() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for pattern in LOOKED_AT
        for path in ROOT.glob(pattern)
        if path.relative_to(ROOT).parts[0] not in ("build", ".venv") and MAPS.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(MAPPED)


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def test_a_parquet_file_that_is_cut_off_while_it_is_read_is_named(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", 300_000
    table = pa.table({"x": np.random.default_rng(1).normal(size=rows)})
    pq.write_table(table, path, use_dictionary=False, compression="none", row_group_size=rows)
    scan = staged_scan((str(path),), table.schema)
    (split,) = scan.splits()
    read = scan.read(split, ["x"], 1000)
    assert next(read).num_rows == 1000
    shortened(path)
    with pytest.raises(DataError, match=r"Row group 0 of .*a\.parquet cannot be read: it was cut off while it was read"):
        next(read)
    with pytest.raises(DataError, match=r"a\.parquet cannot be read as Parquet"):
        scan.splits()


def test_what_is_read_of_a_file_that_was_cut_off_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(100_000)}), path, use_dictionary=False, compression="none")
    with parquet_file(str(path)) as opened:
        shortened(path)
        with pytest.raises(OSError, match="it was cut off while it was read"):
            list(opened.batches(1000, 0, ["x"]))
    path.write_bytes(b"")
    with pytest.raises(OSError, match="it is empty"):
        parquet_files.schema_of(str(path))


def test_a_query_of_a_parquet_file_that_is_cut_off_is_refused_and_the_session_goes_on(
    session: xpsql.Session, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": np.arange(3000) % 2, "x": np.arange(3000)}), path)
    train = f"TRAIN MODEL m USING xftrl LABEL label AS SELECT * FROM parquet.`{path}`"
    for left in (0, 1, 100, path.stat().st_size - 1):
        os.truncate(path, left)
        with pytest.raises(xpsql.XpsqlError, match=r"a\.parquet"):
            session.sql(train)
        pq.write_table(pa.table({"label": np.arange(3000) % 2, "x": np.arange(3000)}), path)
    session.sql(train)


@pytest.mark.parametrize("most", [0, mapped.MAPPED_BYTES], ids=["mapped", "read"])
def test_items_that_are_cut_off_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", most)
    count = 50_000
    items = pa.table(
        {"item": np.arange(count).astype("U"), "shop": (np.arange(count) % 7).astype("U"), "price": np.arange(count)}
    )
    file = write_items(items, tmp_path)
    places = np.array([0, count - 1])
    found = file.using(lambda items: items.taken(["shop", "price"], places))
    assert [found[name].to_pylist() for name in ("shop", "price")] == [["0", str((count - 1) % 7)], [0, count - 1]]

    def cut(items: object) -> None:
        shortened(Path(file.path))

    if most == 0:
        with pytest.raises(DataError, match=r"items\.arrow cannot be read: it was cut off while it was read\. Train again"):
            file.using(cut)
    else:
        file.using(cut)
    assert found["shop"].to_pylist() == ["0", str((count - 1) % 7)], "what was taken before stays as it was"
    with pytest.raises(DataError, match=r"items\.arrow cannot be read"):
        file.using(lambda items: items.places)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9])
def test_items_with_damaged_bytes_are_refused_or_as_they_were(tmp_path: Path, place: float) -> None:
    file = write_items(pa.table({"item": np.arange(999).astype("U"), "shop": (np.arange(999) % 7).astype("U")}), tmp_path)
    content = bytearray(Path(file.path).read_bytes())
    at = int(len(content) * place)
    content[at : at + 64] = b"\xff" * 64
    Path(file.path).write_bytes(content)
    found = []
    with suppress(DataError):
        found = file.using(lambda items: items.taken(["shop"], np.arange(999)))["shop"].to_pylist()
    assert len(found) in (0, 999)

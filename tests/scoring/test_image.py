"""Images of rows: what is found in them, and what becomes of those that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps._native import IMAGE_HEAD_BYTES, Image
from xpsql.platform.scoring import image
from xpsql.platform.scoring.image import ImageWeights, image_bytes, image_of
from xpsql.platform.scoring.weights import Weights
from xpsql.warehouse.manifest import Manifest, TableEntry
from xpsql.warehouse.version import Version

QUERY = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 700 AS STRING) AS x, CAST(id % 13 AS STRING) AS y FROM range(3000)"


class Rows:
    """A version of rows in memory."""

    def __init__(self, keys: list[int], dim: int) -> None:
        self.keys, self.dim = keys, dim
        self.folder = Path("nowhere")
        self.manifest = Manifest(tables=(TableEntry("t", dim),))
        self.floats = np.arange(1, len(keys) * dim + 1, dtype=np.float32).reshape(-1, dim)

    def rows(self, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        keys = pa.array(np.array(self.keys, np.uint64).view(np.int64))
        floats = pa.FixedSizeListArray.from_arrays(pa.array(self.floats.reshape(-1)), self.dim)
        for at in range(0, len(self.keys), 100):
            yield pa.record_batch({"key": keys, "w": floats}).select(columns).slice(at, 100)


KEYS = st.integers(0, 3) | st.integers(0, (1 << 64) - 1) | st.integers(7 << 54, (7 << 54) + 50)


@given(st.sets(KEYS, max_size=300), st.sets(KEYS, max_size=20), st.sampled_from([1, 2, 5, 16]))
def test_a_key_has_its_own_floats_and_one_that_is_absent_zeros(keys: set[int], others: set[int], dim: int) -> None:
    version = Rows(sorted(keys), dim)
    memory = np.zeros(image_bytes(version, "t", "w") + 64, np.uint8)  # type: ignore[arg-type]
    memory = memory[-memory.ctypes.data % 64 :][: len(memory) - 64]
    image.fill(memory, version, "t", "w")  # type: ignore[arg-type]
    made = Image(memory)
    assert (len(made), made.dim) == (len(keys), dim)
    asked = np.array([*sorted(keys), *others], np.uint64)
    outs = np.full((len(asked) + 2, dim), -1, np.float32)
    made.gather(asked, outs)
    wanted = dict(zip(sorted(keys), version.floats, strict=True))
    for key, found in zip(asked.tolist(), outs, strict=False):
        np.testing.assert_array_equal(found, wanted.get(key, np.zeros(dim)))
    assert (outs[len(asked) :] == -1).all()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        yield session


@pytest.fixture
def version(session: xpsql.Session) -> Version:
    session.sql(f"TRAIN OR REPLACE MODEL m USING fm (dim = 3) AS {QUERY}")
    return session.models.version("m")


def test_images_of_a_version_have_what_its_rows_have(version: Version) -> None:
    told: list[str] = []
    keys = np.array([1, *(key for batch in version.rows("weights", ["key"]) for key in batch.column(0).to_pylist())])
    keys = keys.astype(np.int64).view(np.uint64)
    wanted = Weights(version, 0, 1).pull(keys, len(keys) + 3)
    for _ in ("made", "mapped"):
        found = ImageWeights(version, told.append).pull(keys, len(keys) + 3)
        assert found.weights.keys() == wanted.weights.keys()
        for name, floats in wanted.weights.items():
            np.testing.assert_array_equal(found.weights[name], floats)
    assert told == []
    assert sorted(path.name for path in (version.folder / "serving").iterdir()) == ["vectors.w.image", "weights.w.image"]


@pytest.mark.parametrize("damage", ["cut", "emptied", "header", "offsets", "other"])
def test_an_image_that_is_damaged_is_made_again_and_told(version: Version, damage: str) -> None:
    told: list[str] = []
    image_of(version, "weights", "w", told.append)
    path = version.folder / "serving" / "weights.w.image"
    whole = path.read_bytes()
    flipped = {"header": 20, "offsets": 200, "other": 45}
    if damage in flipped:
        broken = bytearray(whole)
        broken[flipped[damage]] ^= 1
        path.write_bytes(broken)
    else:
        path.write_bytes(whole[: len(whole) - 64] if damage == "cut" else b"")
    again = image_of(version, "weights", "w", told.append)
    assert len(again) == version.manifest.rows
    assert len(told) == 1
    assert told[0].startswith(f"The image {path} cannot be used and is made again: ")
    assert path.read_bytes() == whole


def test_a_version_where_nobody_may_write_has_its_images_in_the_cache(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (version.folder / "serving").write_text("a file where the folder goes")
    told: list[str] = []
    assert len(image_of(version, "weights", "w", told.append)) == version.manifest.rows
    (path,) = tmp_path.rglob("weights.w.image")
    made = path.stat().st_mtime_ns
    assert len(image_of(version, "weights", "w", told.append)) == version.manifest.rows
    assert (path.stat().st_mtime_ns, told) == (made, [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(version.folder / "serving"))
    assert len(image_of(version, "weights", "w", told.append)) == version.manifest.rows
    assert len(told) == 1
    assert told[0].startswith("The image weights.w.image stays in memory: ")


def test_memory_that_is_no_image_is_refused() -> None:
    for size in (0, 8, IMAGE_HEAD_BYTES, IMAGE_HEAD_BYTES + 64):
        with pytest.raises(ValueError, match="it is"):
            Image(np.zeros(size, np.uint8))

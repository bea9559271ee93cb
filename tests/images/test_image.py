"""Images of rows: look-ups, damaged images, and versions as overlays of other versions' images."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpsql
from tests.cases import costly, lengthy
from xpsql.platform.errors import ModelError
from xpsql.platform.images import build_process, overlay
from xpsql.platform.images.build_process import weights_apart
from xpsql.platform.images.image import ImageWeights, images_of
from xpsql.platform.images.layout import BLOCK, PAGE, RowColumn, damaged, in_memory, layout_of, placed
from xpsql.platform.images.overlay import overs_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps._native import Image
from xpsql.platform.ps.messages import Pulled
from xpsql.platform.scoring.weights import Weights
from xpsql.warehouse.version import Version

QUERY = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 700 AS STRING) AS x, CAST(id % 13 AS STRING) AS y FROM range(3000)"
WIDE = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x, id AS y FROM range(500)"
KEYS = st.sets(st.integers(4, (1 << 64) - 1) | st.integers(7 << 54, (7 << 54) + 50), max_size=300)


def keys_of(keys: set[int]) -> np.ndarray:
    return np.array(sorted(keys), np.uint64)


def made(keys: np.ndarray, rows: np.ndarray, half: bool = False, absent: int = 3) -> np.ndarray:
    layout, place = placed(keys, (RowColumn("t", "w", 0, rows.shape[1]),), half, absent, bytes(16))

    def fill(place: Any, to: Any) -> None:
        to[place] = rows

    return in_memory(layout, keys, place, fill)


def rows_like(keys: np.ndarray, dim: int, first: int = 1) -> np.ndarray:
    return np.arange(first, first + len(keys) * dim, dtype=np.float32).reshape(-1, dim)


def gathered(image: Image, keys: np.ndarray) -> np.ndarray:
    outs = np.full((len(keys) + 2, image.width), -1, np.float32)
    image.gather(keys, [(0, outs)])
    assert (outs[len(keys) :] == -1).all()
    return outs[: len(keys)]


@given(KEYS, KEYS, KEYS, st.sampled_from([1, 2, 5, 16]), st.booleans())
def test_a_key_has_its_own_floats_and_one_that_is_absent_zeros(
    keys: set[int], others: set[int], changed: set[int], dim: int, half: bool
) -> None:
    own, more = keys_of(keys), keys_of(changed)
    base, over = made(own, rows_like(own, dim), half), made(more, rows_like(more, dim, 900), half)
    wanted = dict(zip(own.tolist(), rows_like(own, dim), strict=True))
    asked = np.array([*keys, *others, *changed, 0, 3], np.uint64)
    for image, known in (
        (Image(base), wanted),
        (Image(base, over), wanted | dict(zip(more.tolist(), rows_like(more, dim, 900), strict=True))),
    ):
        assert (len(image), image.width) == (len(keys), dim)
        for key, found in zip(asked.tolist(), gathered(image, asked), strict=True):
            row = known.get(key, np.zeros(dim, np.float32))
            np.testing.assert_array_equal(found, row.astype(np.float16) if half else row)


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=50))
def test_halves_are_read_as_the_numbers_that_they_are(bits: list[int]) -> None:
    halves = np.array(bits, np.uint16).view(np.float16)
    keys = np.arange(5, 5 + len(bits), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    np.testing.assert_array_equal(
        gathered(Image(made(keys, halves[:, None], half=True)), keys)[:, 0], halves.astype(np.float32)
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        yield session


@pytest.fixture
def version(session: xpsql.Session) -> Version:
    session.sql(f"TRAIN OR REPLACE MODEL m USING fm (dim = 3) AS {QUERY}")
    return session.models.version("m")


def all_keys(*versions: Version) -> np.ndarray:
    keys = [1, *(key for one in versions for batch in one.rows("weights", ["key"]) for key in batch.column(0).to_pylist())]
    return np.unique(np.array(keys, np.int64).view(np.uint64))


def same(found: Pulled, wanted: Pulled) -> None:
    assert found.weights.keys() == wanted.weights.keys()
    for name, floats in wanted.weights.items():
        np.testing.assert_array_equal(found.weights[name], floats)


@costly
def test_images_of_a_version_have_what_its_rows_have(version: Version) -> None:
    reported: list[str] = []
    keys = all_keys(version)
    wanted = Weights(version, 0, 1).pull(keys, len(keys) + 3)
    for _ in ("made", "mapped"):
        images = images_of(version, False, reported.append)
        same(ImageWeights(version, images, [None] * len(images)).pull(keys, len(keys) + 3), wanted)
    assert reported == []
    assert [path.name for path in (version.folder / "serving").iterdir()] == ["rows.bin"]
    halves = images_of(version, True, reported.append)
    found = ImageWeights(version, halves, [None]).pull(keys, len(keys)).weights["vectors"]
    np.testing.assert_array_equal(
        found, np.asarray(wanted.weights["vectors"])[: len(keys)].astype(np.float16).astype(np.float32)
    )


@costly
def test_a_version_over_the_images_of_another_has_its_own_rows(
    session: xpsql.Session, version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MOST_SHARE", 0.5)
    bases = images_of(version, False, print)
    session.sql("CONTINUE MODEL m AS SELECT 1 AS label, CAST(id % 9 + 690 AS STRING) AS x, 'new' AS y FROM range(90)")
    later = session.models.version("m")
    keys = all_keys(version, later)
    overs = overs_of(later, bases)
    assert overs is not None
    same(ImageWeights(later, bases, overs).pull(keys, len(keys)), Weights(later, 0, 1).pull(keys, len(keys)))
    images = images_of(later, False, print)
    back = overs_of(version, images)  # rows that went
    assert back is not None
    same(ImageWeights(version, images, back).pull(keys, len(keys)), Weights(version, 0, 1).pull(keys, len(keys)))
    monkeypatch.setattr(overlay, "MOST_SHARE", 0.001)
    assert overs_of(later, bases) is None, "more differs than pays"
    session.sql(f"TRAIN MODEL other USING xftrl AS {QUERY}")
    assert overs_of(session.models.version("other"), bases) is None, "it has other tables"


@costly
def test_a_process_of_its_own_gives_the_same(session: xpsql.Session, version: Version, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_process, "SMALL_ROWS", 0)
    session.sql(f"TRAIN MODEL wide USING xftrl AS {WIDE}")
    session.sql(f"CONTINUE MODEL wide AS {WIDE} WHERE id < 9")
    first, second = (session.models.version("wide", number) for number in (1, 2))
    reported: list[str] = []
    bases = images_of(first, False, reported.append)
    keys = all_keys(first, second)
    over = weights_apart(second, False, bases, reported.append, threading.Event())
    assert over.bases == tuple(bases), "little differs"
    same(over.pull(keys, len(keys)), Weights(second, 0, 1).pull(keys, len(keys)))
    made = weights_apart(second, False, images_of(version, False, print), reported.append, threading.Event())
    assert [base.path for base in made.bases] == [second.folder / "serving" / "rows.bin"], "other tables"
    same(made.pull(keys, len(keys)), Weights(second, 0, 1).pull(keys, len(keys)))
    assert reported == []
    there = weights_apart(second, False, bases, reported.append, threading.Event())
    assert [base.path for base in there.bases] == [made.bases[0].path], "what is there is mapped"
    again = weights_apart(second, False, there.bases, reported.append, threading.Event())
    assert again.bases == there.bases, "and stays mapped"
    shutil.rmtree(second.folder / "serving")
    ended = threading.Event()
    ended.set()
    with pytest.raises(ModelError, match=r"The process that makes images ended with -?[0-9]+: "):
        weights_apart(second, False, bases, reported.append, ended)
    monkeypatch.setattr(build_process, "MOST_SECONDS", -1)
    late = weights_apart(second, False, bases, reported.append, threading.Event())
    assert late.bases == tuple(bases), "this process does it"


@lengthy
@pytest.mark.parametrize("damage", ["cut", "emptied", "header", "columns", "primes"])
def test_an_image_that_is_damaged_is_made_again_and_reported(version: Version, damage: str) -> None:
    reported: list[str] = []
    images_of(version, False, reported.append)
    path = version.folder / "serving" / "rows.bin"
    whole = path.read_bytes()
    flipped = {"header": 12, "columns": 110, "primes": 24}
    if damage in flipped:
        broken = bytearray(whole)
        broken[flipped[damage]] ^= 1
        path.write_bytes(broken)
    else:
        path.write_bytes(whole[:-8] if damage == "cut" else b"")
    (again,) = images_of(version, False, reported.append)
    assert again.layout.rows == version.manifest.learned.rows
    assert len(reported) == 1
    assert reported[0].startswith(f"The image {path.parent} cannot be used and is made again: ")
    assert path.read_bytes() == whole


def test_a_block_with_other_bytes_than_those_written_is_found() -> None:
    keys = np.random.default_rng(1).integers(1 << 10, 1 << 64, 90_000, np.uint64)
    memory = made(keys, rows_like(keys, 4))
    layout = layout_of(memory[:PAGE].tobytes())
    every = range(-(-(layout.checks_at - PAGE) // BLOCK))
    assert (len(every) > 2, list(damaged(layout, memory, every))) == (True, [])
    memory[PAGE + BLOCK + 77] ^= 1
    assert list(damaged(layout, memory, every)) == [1]
    assert list(damaged(layout, memory, range(2, every.stop))) == []


def test_a_version_where_nobody_may_write_has_its_images_in_the_cache(
    version: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (version.folder / "serving").write_text("a file where the folder goes")
    reported: list[str] = []

    def rows() -> int:
        return images_of(version, False, reported.append)[0].layout.rows

    assert rows() == version.manifest.learned.rows
    (path,) = tmp_path.rglob("rows.bin")
    first = path.stat().st_mtime_ns
    assert rows() == version.manifest.learned.rows
    assert (path.stat().st_mtime_ns, reported) == (first, [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(version.folder / "serving"))
    assert rows() == version.manifest.learned.rows
    assert len(reported) == 1
    assert reported[0].startswith(f"The image of {version.folder} stays in memory: ")


def test_memory_that_is_no_image_is_refused() -> None:
    whole = made(np.array([9], np.uint64), np.ones((1, 2), np.float32))
    for size in (0, 8, PAGE, PAGE + 64, len(whole) - 8):
        with pytest.raises(ValueError, match=r"it is|its rows|its header"):
            Image(whole[:size].copy())
    with pytest.raises(ValueError, match="another width"):
        Image(whole, made(np.array([9], np.uint64), np.ones((1, 3), np.float32)))

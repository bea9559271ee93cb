"""Which version is served, and how a new one takes the place of the last."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, lengthy
from tests.serving.conftest import Client, failing, loaded_of
from xpsql.platform.errors import ModelError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving import instances
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.loaded import Loaded
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.warehouse import mapped
from xpsql.warehouse.catalog import Catalog
from xpsql.warehouse.version import Version

SWAPS = int(os.environ.get("XPSQL_SWAPS", "20"))
WIDE = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x, id AS y FROM range(500)"
QUERY = "SELECT CAST(id % 2 AS INT) AS label, CAST(id % 7 AS STRING) AS x FROM range(500)"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS {QUERY}")
        yield session


def numbers(served: Served) -> list[int]:
    return [loaded.number for loaded in served.all()]


def test_a_new_version_is_served_once_it_is_ready_and_a_promoted_one_stays(own: xpsql.Session) -> None:
    reported: list[str] = []
    served = Served(own.models, ["m"], None, reported.append)
    before = served.find("m", None)
    served.refresh()
    assert served.find("m", None) is before, "nothing is loaded again where nothing changed"
    own.sql(f"CONTINUE MODEL m AS {QUERY}")
    served.refresh()
    assert (numbers(served), reported) == ([2], ["Serving m v2 instead of v1."])
    own.sql("ALTER MODEL m PROMOTE VERSION 1")
    served.refresh()
    own.sql(f"CONTINUE MODEL m AS {QUERY}")
    served.refresh()
    assert numbers(served) == [1]


def test_a_new_version_answers_the_last_requests_before_it_is_served(
    own: xpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(own.models, ["m"], None, print)
    client = Client(Service(served, RequestLimits(), None, None, failing))
    for x in "12":
        client.predict({"instances": [{"x": x}]}, "m")
    client.problem("/v1/models/m:predict", {"instances": [{}]})
    asked: list[tuple[int, list[int], str]] = []
    answer = Loaded.predict_objects

    def predict_objects(self: Loaded, rows: list[Any], context: dict[str, Any] | None) -> dict[str, pa.Array] | None:
        asked.append((self.number, numbers(served), rows[0]["x"]))
        return answer(self, rows, context)

    monkeypatch.setattr(Loaded, "predict_objects", predict_objects)
    own.sql(f"CONTINUE MODEL m AS {QUERY}")
    served.refresh()
    assert asked == [(2, [1], "1"), (2, [1], "2")]
    assert numbers(served) == [2]


def test_a_version_that_is_pinned_stays(own: xpsql.Session) -> None:
    served = Served(own.models, ["m"], 1, print)
    own.sql(f"CONTINUE MODEL m AS {QUERY}")
    served.start()
    served.stop()
    client = Client(Service(served, RequestLimits(), None, None, failing))
    assert client.get("/v2/models/m/versions/1").status == 200
    assert client.get("/v2/models/m/versions/2").status == 404


def test_a_version_that_cannot_be_loaded_leaves_the_last_one_in_place_and_is_reported_once(own: xpsql.Session) -> None:
    reported: list[str] = []
    served = Served(own.models, ["m"], None, reported.append)
    own.sql(f"CONTINUE MODEL m AS {QUERY}")
    (file,) = own.models.version("m", 2).files("weights")
    file.write_bytes(b"no Parquet")
    served.refresh()
    served.refresh()
    assert (numbers(served), len(reported), served.failures["m"]) == ([1], 1, 2)
    assert reported[0].startswith("Still serving m v1: ")


def test_a_model_that_is_dropped_is_served_on(own: xpsql.Session) -> None:
    served = Served(own.models, ["m"], None, print)
    own.sql("DROP MODEL m")
    served.refresh()
    assert numbers(served) == [1]
    own.sql(f"TRAIN MODEL m USING xftrl (alpha = 0.5) AS {QUERY}")
    first = served.find("m", None).training
    served.refresh()
    assert (numbers(served), served.find("m", None).training != first) == ([1], True)


def test_a_model_that_is_absent_cannot_be_served(own: xpsql.Session) -> None:
    with pytest.raises(ModelError, match="There is no model n"):
        Served(own.models, ["n"], None, print)


class Alternating:
    """A catalog that serves one version after the other."""

    def __init__(self, models: Catalog) -> None:
        self._models, self.number = models, 1
        self.find = models.find

    def served(self, name: str) -> int:
        return self.number

    def reading(self, name: str, number: int | None) -> AbstractContextManager[Version]:
        return self._models.reading(name, self.number)


@lengthy
def test_no_request_sees_two_versions_or_waits_for_one_to_be_loaded(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl AS {WIDE}")
        session.sql(f"CONTINUE MODEL m AS {WIDE} WHERE id < 9")
        models = Alternating(session.models)
        served = Served(cast(Any, models), ["m"], None, print)
    rows = [{"x": str(number % 7), "y": number} for number in range(64)]
    columns = served.find("m", None).inputs
    (batch,) = instances.of_rows(rows, {}, columns).to_batches()

    def answers() -> Iterator[tuple[float, ...]]:
        loaded = served.find("m", None)
        yield tuple(loaded.predict_objects(rows, None)["predicted_label"].to_pylist())  # type: ignore[index]
        yield tuple(loaded.predict_batches([batch], range(2))["predicted_label"].to_pylist())  # type: ignore[index]

    whole, bases, ended, problems = set(), set(), threading.Event(), list[tuple[float, ...]]()
    for models.number in (1, 2):
        served.refresh()
        whole |= set(answers())
        bases.add(id(served.find("m", None).weights.bases))
    assert (len(whole), len(bases)) == (2, 1), "the second version goes over the images of the first"

    def ask() -> None:
        while not ended.is_set():
            problems.extend(found for found in answers() if found not in whole)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for models.number in (1, 2) * (SWAPS // 2):
        served.refresh()
    ended.set()
    for thread in threads:
        thread.join()
    assert problems == []


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(100)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(400))


def test_a_small_image_is_served_from_memory_whatever_happens_to_its_file(own: xpsql.Session) -> None:
    reported: list[str] = []
    served = Served(own.models, ["m"], None, reported.append)
    client = Client(Service(served, RequestLimits(), None, None, failing))
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    wanted = client.predict(rows, "m")
    (path,) = (own.models.version("m").folder / "serving").iterdir()
    for damage in (overwritten, cut, Path.unlink):
        damage(path)
        served.refresh()
        assert (client.predict(rows, "m"), reported) == (wanted, [])


@pytest.mark.parametrize("damage", [overwritten, cut])
def test_a_damaged_image_is_made_again_before_it_is_used(own: xpsql.Session, damage: Callable[[Path], None]) -> None:
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    found, reported = [], list[str]()
    for _ in range(3):
        client = Client(Service(Served(own.models, ["m"], None, reported.append), RequestLimits(), None, None, failing))
        found.append(client.predict(rows, "m"))
        (path,) = (own.models.version("m").folder / "serving").iterdir()
        damage(path)
    assert found[1:] == found[:-1]
    assert [line.startswith(f"The image {path.parent} cannot be used and is made again: ") for line in reported] == [True] * 2


def test_a_large_image_that_is_cut_off_while_it_is_served_is_made_again(
    own: xpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    reported: list[str] = []
    served = Served(own.models, ["m"], None, reported.append)
    client = Client(Service(served, RequestLimits(), None, None, failing))
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    wanted = client.predict(rows, "m")
    (path,) = (own.models.version("m").folder / "serving").iterdir()
    cut(path)
    served.refresh()
    assert (client.predict(rows, "m"), reported) == (wanted, [f"The image {path} is damaged and is made again."])


@costly
@pytest.mark.parametrize("left", [100, 5000])
def test_a_large_image_that_is_cut_off_is_told_by_its_requests_while_others_are_answered(
    own: xpsql.Session, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    own.sql(f"TRAIN MODEL other USING fm AS {QUERY}")
    own.sql(f"TRAIN MODEL deep USING xnn (hidden = 2, dim = 2) AS {QUERY}")
    served = Served(own.models, ["m", "other", "deep"], None, str)
    client = Client(Service(served, RequestLimits(), None, None, failing))
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    wanted = {name: client.predict(rows, name) for name in ("m", "other", "deep")}
    for name in ("m", "deep"):
        (path,) = (own.models.version(name).folder / "serving").iterdir()
        with path.open("r+b") as file:
            file.truncate(left)
        problem = client.problem(f"/v1/models/{name}:predict", rows, 503)
        assert problem.startswith(f"The image {path} is damaged: it was cut off while it was in use.")
        assert client.predict(rows, "other") == wanted["other"]
        served.refresh()
        assert client.predict(rows, name) == wanted[name]


def test_a_large_image_that_is_damaged_while_it_is_served_is_made_again(
    own: xpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 0)
    reported: list[str] = []
    served = Served(own.models, ["m"], None, reported.append)
    client = Client(Service(served, RequestLimits(), None, None, failing))
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    wanted = client.predict(rows, "m")
    (path,) = (own.models.version("m").folder / "serving").iterdir()
    overwritten(path)
    assert client.predict(rows, "m") != wanted
    served.refresh()
    assert (client.predict(rows, "m"), reported) == (wanted, [f"The image {path} is damaged and is made again."])
    served.refresh()
    assert len(reported) == 1


def test_rows_of_16_bits_are_near_those_of_32(own: xpsql.Session) -> None:
    rows = {"instances": [{"x": str(x)} for x in range(8)]}
    exact, near = (
        Client(Service(Served(own.models, ["m"], None, print, half), RequestLimits(), None, None, failing)).predict(rows, "m")
        for half in (False, True)
    )
    assert near != exact
    assert near == pytest.approx(exact, rel=1e-3)


def test_every_program_is_compiled_before_a_version_serves(session: xpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from xpsql.platform.training.compiled import compilations

    loaded = loaded_of(session.models.version("deep", None))
    compiled: list[float] = []
    with compilations(compiled.append):
        for count in (1, 2, 16, 17, 100, 129, 1000, 1500):
            rows = session.sql(f"SELECT user, ad, tags, price FROM log WHERE id < {count}").arrow()
            assert len(loaded.predict(rows)["predicted_click"]) == count
    assert compiled == []

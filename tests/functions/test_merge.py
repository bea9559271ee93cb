"""MERGE MODEL, and rounds by files: EXPORT MODEL ... FORMAT version, IMPORT MODEL, CONTINUE, MERGE MODEL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xpsql
from tests.cases import costly, costly_after_first, slow
from tests.notes import Notes
from tests.training.log import embedded, log, write
from xpsql.platform.progress import SilentReporter
from xpsql.platform.trust import TRUST, digest

BETA, POWER = 1.5, 0.625
"""Of xftrl by default."""
QUERY = "SELECT label, user, item, price FROM parquet.`{}`"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("logs")
    return [write(log(600, seed=seed), folder / f"log{seed}.parquet") for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, logs: list[Path]) -> Path:
    """A hub's warehouse, with a model of one version."""
    folder = tmp_path_factory.mktemp("hub")
    with xpsql.connect(folder / "hub", "duckdb", SilentReporter()) as session:
        session.sql(f"TRAIN MODEL hub USING xftrl LABEL label AS {QUERY.format(logs[0])}")
        session.sql(f"TRAIN MODEL deep USING fm (dim = 3) LABEL label AS {QUERY.format(logs[0])}")
    return folder / "hub"


@pytest.fixture
def hub(trained: Path, tmp_path: Path, engine: Any) -> Iterator[xpsql.Session]:
    shutil.copytree(trained, tmp_path / "hub")
    with xpsql.connect(tmp_path / "hub", engine, SilentReporter()) as session:
        yield session


def site(hub: xpsql.Session, tmp_path: Path, name: str, path: Path, model: str = "hub", delta: bool = False) -> Path:
    """Take the hub's version to a warehouse of its own, learn there, and return the folder of what was learned."""
    out = tmp_path / f"{model}_round"
    hub.sql(f"EXPORT MODEL {model} TO '{out}' FORMAT version")
    with xpsql.connect(tmp_path / name, "duckdb", SilentReporter()) as session:
        session.sql(f"IMPORT MODEL {model} FROM '{out}'")
        session.sql(f"CONTINUE MODEL {model} AS {QUERY.format(path)}")
        since = " DELTA FROM VERSION 1" if delta else ""
        session.sql(f"EXPORT MODEL {model} TO '{tmp_path / name}_out' FORMAT version{since}")
    return tmp_path / f"{name}_out"


def stored(session: xpsql.Session, model: str, number: int | None = None, table: str = "weights") -> dict[int, dict[str, Any]]:
    """Return the stored rows of a version by key."""
    version = session.models.version(model, number)
    return {row["key"]: row for batch in version.rows(table) for row in batch.to_pylist()}


def held(row: dict[str, Any]) -> tuple[float, float]:
    """Return how firmly ftrl holds a weight, times alpha, and the weight."""
    return BETA + row["n"] ** POWER, row["w"]


@embedded
def test_an_imported_version_has_every_bit_and_predicts_the_same(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    hub.sql(f"EXPORT MODEL hub TO '{tmp_path}/out' FORMAT version")
    predict = f"SELECT predicted_label FROM ML.PREDICT(MODEL hub, ({QUERY.format(logs[1])}))"
    with xpsql.connect(tmp_path / "elsewhere", "duckdb", SilentReporter()) as session:
        (made,) = session.sql(f"IMPORT MODEL hub FROM '{tmp_path}/out'").table.to_pylist()
        assert (made["version"], made["examples"]) == (1, 600)
        assert stored(session, "hub") == stored(hub, "hub")
        assert session.sql(predict).table == hub.sql(predict).table
        mine, theirs = session.models.version("hub").manifest, hub.models.version("hub").manifest
        assert mine.identity == theirs.identity == theirs.training != mine.training
        assert [file.blocks for file in mine.files] == [file.blocks for file in theirs.files]


@embedded
def test_a_merge_of_one_source_is_that_source_bit_by_bit(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    out = site(hub, tmp_path, "a", logs[1])
    hub.sql(f"MERGE MODEL hub FROM '{out}'")
    with xpsql.connect(tmp_path / "a", "duckdb", SilentReporter()) as session:
        assert stored(hub, "hub", 2) == stored(session, "hub", 2)
        assert hub.models.version("hub").manifest.statistics == session.models.version("hub").manifest.statistics


@costly_after_first
def test_changes_of_sites_add_up_on_both_engines(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    a, b = site(hub, tmp_path, "a", logs[1]), site(hub, tmp_path, "b", logs[2], delta=True)
    (made,) = hub.sql(f"MERGE MODEL hub FROM '{a}', '{b}' USING state").table.to_pylist()
    base, merged, sites = stored(hub, "hub", 1), stored(hub, "hub", 2), []
    for name in ("a", "b"):
        with xpsql.connect(tmp_path / name, "duckdb", SilentReporter()) as session:
            sites.append(stored(session, "hub", 2))
    assert merged.keys() == sites[0].keys() | sites[1].keys()
    assert (made["version"], made["examples"], made["features"]) == (2, 1800, len(merged))
    for key, row in merged.items():
        for name in ("count", "updates", "shows", "clicks", "n"):
            start = base[key][name] if key in base else 0
            total = start + sum(one[key][name] - start for one in sites if key in one)
            assert row[name] == pytest.approx(total, rel=1e-6, abs=1e-7)
        seen = [held(one[key]) for one in sites if key in one]
        n, w = held(base[key]) if key in base else (BETA, 0)
        least = (sum(n * w for n, w in seen) - (len(seen) - 1) * n * w) / (sum(n for n, _ in seen) - (len(seen) - 1) * n)
        assert row["w"] == pytest.approx(least, rel=1e-4, abs=1e-6)
    hub.sql(f"CONTINUE MODEL hub AS {QUERY.format(logs[0])}")
    info = hub.sql("SELECT * FROM ML.MERGE_INFO(MODEL hub VERSION 2)").table.to_pylist()
    assert sorted(row["source"] for row in info) == sorted([str(a), str(b)])
    assert [row["examples"] for row in info] == [600, 600]
    assert all(row["rows"] == row["only_here"] + row["shared"] and row["distance"] > 0 for row in info)
    first, second = (set(one) for one in sites)
    assert {row["only_here"] for row in info} == {len(first - second), len(second - first)}


def test_of_a_version_that_was_not_merged_there_is_nothing_to_tell(trained: Path) -> None:
    told = Notes()
    with xpsql.connect(trained, "duckdb", told) as session:
        assert len(session.sql("SELECT * FROM ML.MERGE_INFO(MODEL hub)")) == 0
    assert told.notes == ["Version 1 of model hub was not made by MERGE MODEL: ML.MERGE_INFO is empty."]


@costly
@embedded
def test_the_order_of_sources_changes_nothing(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    a, b = site(hub, tmp_path, "a", logs[1], "deep"), site(hub, tmp_path, "b", logs[2], "deep")
    hub.sql(f"MERGE MODEL deep FROM '{a}', '{b}'")
    hub.sql(f"MERGE MODEL deep FROM '{b}', '{a}'")
    for table in ("weights", "vectors"):
        assert stored(hub, "deep", 2, table) == stored(hub, "deep", 3, table)
    base, merged = stored(hub, "deep", 1, "vectors"), stored(hub, "deep", 2, "vectors")
    with xpsql.connect(tmp_path / "a", "duckdb", SilentReporter()) as session:
        one = stored(session, "deep", 2, "vectors")
    with xpsql.connect(tmp_path / "b", "duckdb", SilentReporter()) as session:
        other = stored(session, "deep", 2, "vectors")
    key = max(base, key=lambda key: base[key]["count"])
    counts = [site_rows[key]["count"] - base[key]["count"] for site_rows in (one, other)]
    changes = [np.array(rows[key]["w"]) - np.array(base[key]["w"]) for rows in (one, other)]
    expected = np.array(base[key]["w"]) + sum(n * change for n, change in zip(counts, changes, strict=True)) / sum(counts)
    np.testing.assert_allclose(merged[key]["w"], expected, 1e-5, 1e-7)


@costly
@embedded
def test_with_l1_so_large_that_no_weight_moves_merging_is_sequential_training(
    hub: xpsql.Session, tmp_path: Path, logs: list[Path]
) -> None:
    """Then each site's gradients are those at the weights 0, as in one training of all rows, batch for batch."""
    query = "SELECT label, user, item FROM parquet.`{}`"
    train = "TRAIN MODEL {} USING xftrl (l1 = 1000, intercept = false) LABEL label WITH (batch_size = 64) AS "
    hub.sql(train.format("flat") + query.format(logs[0]))
    for number, name in ((1, "left"), (2, "right")):
        hub.sql(f"EXPORT MODEL flat VERSION 1 TO '{tmp_path}/flat' FORMAT version")
        hub.sql(f"IMPORT MODEL {name} FROM '{tmp_path}/flat'")
        hub.sql(f"CONTINUE MODEL {name} AS {query.format(logs[number])}")
    hub.sql("MERGE MODEL flat FROM left, right USING state")
    hub.sql(f"CONTINUE MODEL flat FROM VERSION 1 AS {query.format(logs[1])}")
    hub.sql(f"CONTINUE MODEL flat FROM VERSION 3 AS {query.format(logs[2])}")
    merged, sequential = stored(hub, "flat", 2), stored(hub, "flat", 4)
    assert merged.keys() == sequential.keys()
    for key, row in sequential.items():
        assert [merged[key][name] for name in ("z", "n")] == pytest.approx([row["z"], row["n"]], rel=1e-5, abs=1e-6)
        assert merged[key]["count"] == row["count"]


@embedded
def test_weights_are_averaged_and_z_follows(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    a, b = site(hub, tmp_path, "a", logs[1]), site(hub, tmp_path, "b", logs[2])
    hub.sql(f"MERGE MODEL hub FROM '{a}', '{b}' WEIGHTED BY examples")
    base, merged, sites = stored(hub, "hub", 1), stored(hub, "hub", 2), []
    for name in ("a", "b"):
        with xpsql.connect(tmp_path / name, "duckdb", SilentReporter()) as session:
            sites.append(stored(session, "hub", 2))
    everywhere = [key for key in base if all(key in one for one in sites)]
    assert everywhere
    for key in everywhere:
        assert merged[key]["w"] == pytest.approx(np.mean([one[key]["w"] for one in sites]), rel=1e-4, abs=1e-6)


@embedded
def test_a_damaged_or_foreign_folder_is_refused(hub: xpsql.Session, tmp_path: Path, logs: list[Path]) -> None:
    out = tmp_path / "out"
    hub.sql(f"EXPORT MODEL hub TO '{out}' FORMAT version")
    with pytest.raises(xpsql.ModelError, match="has an export of model hub"):
        hub.sql(f"EXPORT MODEL deep TO '{out}' FORMAT version")
    hub.sql(f"EXPORT MODEL deep TO '{out}' FORMAT version WITH (replace = true)")
    hub.sql(f"EXPORT MODEL hub TO '{out}' FORMAT version WITH (replace = true)")
    with pytest.raises(xpsql.ModelError, match="is no export of a model as a version"):
        hub.sql(f"IMPORT MODEL m FROM '{tmp_path}'")
    with pytest.raises(xpsql.ModelError, match=r"manifest\.json is a file, and an export is a folder"):
        hub.sql(f"EXPORT MODEL hub TO '{next(out.glob('*manifest*'))}' FORMAT version")
    with pytest.raises(xpsql.StatementError, match="is a folder, got an empty path"):
        hub.sql("EXPORT MODEL hub TO '' FORMAT version")
    part = next((out / "rows" / "weights").glob("part-*"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(xpsql.ModelError, match="checksum"):
        hub.sql(f"IMPORT MODEL m FROM '{out}'")
    assert [version.manifest.status for version in hub.models.present("m")] in ([], ["failed"])
    delta = site(hub, tmp_path, "a", logs[1], delta=True)
    with pytest.raises(xpsql.ModelError, match="a version that model m does not have"):
        hub.sql(f"IMPORT MODEL m FROM '{delta}'")
    hub.sql(f"IMPORT MODEL hub FROM '{delta}'")
    with xpsql.connect(tmp_path / "a", "duckdb", SilentReporter()) as session:
        assert stored(hub, "hub", 2) == stored(session, "hub", 2)


@costly
@embedded
def test_sources_that_differ_are_refused_by_what_differs(hub: xpsql.Session, logs: list[Path]) -> None:
    hub.sql(f"TRAIN MODEL wide USING fm (dim = 4) LABEL label AS {QUERY.format(logs[0])}")
    hub.sql(f"TRAIN MODEL less USING xftrl LABEL label AS SELECT label, user FROM parquet.`{logs[0]}`")
    hub.sql(f"TRAIN MODEL alpha USING xftrl (alpha = 0.3) LABEL label AS {QUERY.format(logs[0])}")
    for sources, what in (
        ("hub, deep", "they differ in algorithm: hub VERSION 1 has xftrl, deep VERSION 1 has fm"),
        ("deep, wide", "they differ in options of the algorithm"),
        ("hub, less", "they differ in slots: hub VERSION 1 has"),
        ("hub, alpha", "they differ in options of the algorithm"),
    ):
        with pytest.raises(xpsql.ModelError, match=what):
            hub.sql(f"MERGE MODEL merged FROM {sources}")
    assert not hub.models.present("merged")


@embedded
def test_a_networks_text_runs_only_where_it_is_trusted(
    hub: xpsql.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.sql(f"EXPORT MODEL hub TO '{tmp_path}/out' FORMAT version")
    manifest = tmp_path / "out" / "manifest.json"
    text = manifest.read_text().replace(
        '"name": "xftrl",\n  "options": {}',
        '"name": "network",\n  "options": {"source": "x = 1", "sha256": "' + digest("x = 1") + '"}',
        1,
    )
    manifest.write_text(text)
    for name, value in {"allowed": False, "_seen": set()}.items():
        monkeypatch.setattr(TRUST, name, value)
    with pytest.raises(xpsql.ModelError, match="you have not trusted"):
        hub.sql(f"IMPORT MODEL m FROM '{tmp_path}/out'")


@embedded
def test_merge_and_import_stay_names(hub: xpsql.Session) -> None:
    hub.sql("CREATE TABLE merge AS SELECT id % 2 AS label, concat('u', id % 3) AS source, id % 5 AS version FROM range(100)")
    hub.sql("TRAIN MODEL merge USING xftrl LABEL label AS SELECT label, source, version FROM merge")
    hub.sql("MERGE MODEL import FROM merge VERSION 1")
    found = hub.sql("SELECT source FROM ML.MERGE_INFO(MODEL import)").table["source"].to_pylist()
    assert found == ["merge VERSION 1"]


@embedded
def test_a_merged_version_is_not_reproduced_as_if_a_training_had_made_it(hub: xpsql.Session, logs: list[Path]) -> None:
    for number, fork in ((1, "left"), (2, "right")):
        hub.sql(f"MERGE MODEL {fork} FROM hub")
        hub.sql(f"CONTINUE MODEL {fork} AS {QUERY.format(logs[number])}")
    hub.sql("MERGE MODEL hub FROM left, right")
    assert hub.models.version("hub").manifest.learned.examples == 1200
    with pytest.raises(xpsql.ModelError, match="was not made by a training"):
        hub.sql("REPRODUCE MODEL hub VERSION 2")
    with pytest.raises(xpsql.ModelError, match="left VERSION 2 has been merged into hub VERSION 2 already"):
        hub.sql("MERGE MODEL hub FROM hub, left")


@slow
@embedded
def test_with_many_rounds_added_state_comes_to_what_one_training_of_all_rows_learns(hub: xpsql.Session) -> None:
    """Two sites and eight rounds; each feature's weight is compared with that of one training, by how often it occurs."""
    random = np.random.default_rng(0)
    codes = [random.zipf(1.3, 9000) % 200 for _ in range(3)]
    logit = sum(random.normal(size=200)[code] for code in codes)
    label = (random.random(9000) < 1 / (1 + np.exp(-logit))).astype(np.int32)
    slots = {f"s{number}": [f"c{code}" for code in of_slot] for number, of_slot in enumerate(codes)}
    hub.register("rows", pa.table({"id": np.arange(9000), "label": label, **slots}))
    query = "SELECT label, s0, s1, s2 FROM rows WHERE id >= {} AND id < {} AND id % 2 IN ({})"
    hub.sql(f"TRAIN MODEL one USING xftrl LABEL label WITH (batch_size = 16) AS {query.format(0, 1000, '0, 1')}")
    for model in ("state", "weights"):
        hub.sql(f"MERGE MODEL {model} FROM one")
        for start in range(1000, 9000, 1000):
            for number in range(2):
                hub.sql(f"MERGE MODEL {model}_{number} FROM {model}")
                hub.sql(f"CONTINUE MODEL {model}_{number} AS {query.format(start, start + 1000, number)}")
            hub.sql(f"MERGE MODEL {model} FROM {model}_0, {model}_1 USING {model}")
    hub.sql(f"CONTINUE MODEL one AS {query.format(1000, 9000, '0, 1')}")
    one = stored(hub, "one")

    def distance(model: str) -> float:
        rows = stored(hub, model)
        assert rows.keys() == one.keys()
        assert all(rows[key]["count"] == one[key]["count"] for key in one)
        return float(np.sqrt(sum(row["count"] * (rows[key]["w"] - row["w"]) ** 2 for key, row in one.items())))

    size = float(np.sqrt(sum(row["count"] * row["w"] ** 2 for row in one.values())))
    assert distance("state") < min(distance("weights"), 0.1 * size)

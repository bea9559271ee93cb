"""A version tells in which environment it was trained."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import xpsql
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.provenance.environment import PACKAGES, environment


def test_a_version_keeps_the_versions_of_packages_and_native_modules(tmp_path: Path) -> None:
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        session.sql("TRAIN MODEL m USING xftrl AS SELECT CAST(id % 2 AS INT) AS label, id % 7 AS x FROM range(200)")
        kept = session.models.version("m").manifest.environment
        shown = dict(session.sql("DESCRIBE MODEL m").fetchall())["environment"]
    assert kept == {**environment(), "xpsql": version("xpsql")}
    assert {name: kept[name] for name in PACKAGES} == {name: version(name) for name in PACKAGES}
    assert len(kept["native"]) == len(kept["lookups"]) == 16
    assert f"jax {version('jax')}" in shown

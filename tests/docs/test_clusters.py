"""The commands of docs/clusters.md are ours, and what examples/spark has fits together. test_pack.py runs the session."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

import xpsql
from tests.docs.blocks import ROOT, blocks, options_of
from xpsql.platform.cli.packing import FOLDER
from xpsql.platform.cli.submit import OF_DRIVERS
from xpsql.platform.progress import SilentReporter

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples" / "spark"


def test_the_commands_of_the_page_have_the_options_that_it_shows() -> None:
    shown = [block.text for block in blocks("docs/clusters.md") if block.language == "sh"]
    lines = [shlex.split(line.removeprefix("$ ")) for text in shown for line in text.splitlines()]
    lines += [shlex.split(line) for line in re.findall(r"`(xpsql [^`]*)`", PAGE)]
    found = [line for line in lines if line[0] == "xpsql"]
    assert {line[1] for line in found} == {"submit", "pack", "run"}
    for line in found:
        assert {word for word in line if word.startswith("--")} <= options_of(line[1]) | options_of("run")


def test_the_page_names_what_an_archive_needs() -> None:
    assert PAGE.count(f"#{FOLDER}") == 2
    assert set(OF_DRIVERS) <= set(re.findall(r"`(spark[\w.]*)`", PAGE))


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    """The manifest's parts by their kinds, each of which it has once."""
    listed = list(yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text(encoding="utf-8")))
    found = {part["kind"]: part for part in listed}
    assert len(found) == len(listed)
    return found


def test_the_parts_of_the_manifest_name_each_other(parts: dict[str, Any]) -> None:
    pod = parts["Job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = dict(re.findall(r"--conf=([^=]+)=(.*)", "\n".join(container["args"])))
    account = parts["ServiceAccount"]["metadata"]["name"]
    assert pod["serviceAccountName"] == account == parts["RoleBinding"]["subjects"][0]["name"]
    assert parts["RoleBinding"]["roleRef"]["name"] == parts["Role"]["metadata"]["name"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    claim, folder = (
        parts["PersistentVolumeClaim"]["metadata"]["name"],
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.",
    )
    assert (
        volumes["warehouse"]["persistentVolumeClaim"]["claimName"] == settings[f"{folder}warehouse.options.claimName"] == claim
    )
    assert volumes["job"]["configMap"]["name"] == parts["ConfigMap"]["metadata"]["name"]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"--warehouse={places['warehouse']}" in container["args"]
    assert settings[f"{folder}warehouse.mount.path"] == places["warehouse"]
    assert container["args"][:3] == ["xpsql", "run", f"{places['job']}/train.sql"]
    assert {word.partition("=")[0] for word in container["args"] if word.startswith("--")} <= options_of("run")
    assert container["image"] == settings["spark.kubernetes.container.image"]
    variables = {variable["name"] for variable in container["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) == variables


def test_the_statements_of_the_manifest_run(parts: dict[str, Any], tmp_path: Path) -> None:
    sql = parts["ConfigMap"]["data"]["train.sql"].replace("2000000", "2000")
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session:
        (row,) = session.sql(sql).arrow().to_pylist()
    assert row["examples"] == 2000


@pytest.mark.parametrize("file", ["examples/spark/Dockerfile", "examples/serving/Dockerfile"])
def test_an_image_copies_what_make_wheel_leaves_and_installs_it_with_extras_that_there_are(file: str) -> None:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("COPY ") and "--from" not in line] == ["COPY dist /dist"]
    assert any("pip install" in line and "--find-links /dist" in line for line in lines)
    assert f"# docker build -f {file}" in (ROOT / file).read_text().replace("#   make wheel && ", "# ")


def test_the_image_of_the_page_is_that_of_the_manifest(parts: dict[str, Any]) -> None:
    (container,) = parts["Job"]["spec"]["template"]["spec"]["containers"]
    assert f"docker build -f examples/spark/Dockerfile -t {container['image']} ." in PAGE
    assert f"-t {container['image']} ." in (EXAMPLES / "Dockerfile").read_text(encoding="utf-8")

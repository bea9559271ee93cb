"""Promotions are signed as versions are: who writes files cannot bring a signed version back into service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

import xpsql
from tests.provenance.test_signature import key_in
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.cli.serve import vouched
from xpsql.platform.errors import ModelError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.provenance.promotion import SIGNATURE, sign_promotion, verify_promotion
from xpsql.platform.provenance.signature import sign
from xpsql.platform.serving.served import Served
from xpsql.warehouse.version import Version

pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[xpsql.Session]:
    """A warehouse of a model `m` with two signed versions, none of which is promoted."""
    path, key = write(log(500), tmp_path / "log.parquet"), key_in(tmp_path, "team")
    query = f"SELECT label, user, item FROM parquet.`{path}`"
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        for statement in ("TRAIN MODEL m USING xftrl LABEL label", "CONTINUE MODEL m"):
            session.sql(f"{statement} AS {query}")
            sign(session.models.version("m"), key)
        yield session


def ran(session: xpsql.Session, *arguments: str) -> Any:
    return CliRunner().invoke(main, [*arguments, "--warehouse", str(session.models.warehouse)])


def test_the_commands_sign_and_verify_which_version_is_promoted(session: xpsql.Session, tmp_path: Path) -> None:
    key, public = str(tmp_path / "team.pem"), str(tmp_path / "team.pub.pem")
    plain = ran(session, "verify", "m", "--signed-by", public)
    assert (plain.exit_code, "promotion" in plain.stdout) == (0, False)
    session.sql("ALTER MODEL m PROMOTE VERSION 1")
    unsigned = ran(session, "verify", "m", "--signed-by", public)
    assert (unsigned.exit_code, "The promotion of model m is not what" in unsigned.stderr) == (1, True)
    assert ran(session, "verify", "m", "1", "--signed-by", public).exit_code == 0
    assert "Signed m v1 and its promotion." in ran(session, "sign", "m", "--key", key).stdout
    found = ran(session, "verify", "m", "--signed-by", public)
    assert found.exit_code == 0, found.output
    assert "and so is its promotion" in found.stdout


def test_a_promotion_that_another_wrote_signed_or_took_away_is_refused(session: xpsql.Session, tmp_path: Path) -> None:
    version, key, public = session.models.version("m"), tmp_path / "team.pem", tmp_path / "team.pub.pem"
    folder = version.folder.parent
    session.sql("ALTER MODEL m PROMOTE VERSION 2")
    assert sign_promotion(version, key)
    assert verify_promotion(version, public) is not None
    whole = (folder / "promoted.json").read_bytes()
    for text in (whole.replace(b"2", b"1"), whole.replace(b"2", b"null"), whole + b" "):
        (folder / "promoted.json").write_bytes(text)
        with pytest.raises(ModelError, match="does not fit"):
            verify_promotion(version, public)
    (folder / "promoted.json").unlink()
    with pytest.raises(ModelError, match=r"promoted\.json is gone"):
        verify_promotion(version, public)
    (folder / "promoted.json").write_bytes(whole)
    sign_promotion(version, key_in(tmp_path, "other"))
    with pytest.raises(ModelError, match="signed by another key"):
        verify_promotion(version, public)


def test_the_signature_of_another_model_or_of_a_version_is_none(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql(f"TRAIN MODEL n USING xftrl LABEL label AS SELECT label, user, item FROM parquet.`{tmp_path}/log.parquet`")
    one, other = session.models.version("m"), session.models.version("n")
    session.sql("ALTER MODEL m PROMOTE VERSION 1; ALTER MODEL n PROMOTE VERSION 1")
    sign_promotion(one, tmp_path / "team.pem")
    signature = (one.folder.parent / SIGNATURE).read_bytes()
    (other.folder.parent / SIGNATURE).write_bytes(signature)
    with pytest.raises(ModelError, match="of another file or model"):
        verify_promotion(other, tmp_path / "team.pub.pem")


def test_a_service_follows_signed_promotions_alone_and_none_back(session: xpsql.Session, tmp_path: Path) -> None:
    key, lines = tmp_path / "team.pem", list[str]()
    version = session.models.version("m")
    folder = version.folder.parent
    served = Served(session.models, ["m"], None, lines.append, vouched=vouched(str(tmp_path / "team.pub.pem")))
    session.sql("ALTER MODEL m PROMOTE VERSION 1")
    served.refresh()
    assert [one.number for one in served.all()] == [2]
    assert "The promotion of model m is not what" in lines[-1]
    sign_promotion(version, key)
    old = {name: (folder / name).read_bytes() for name in ("promoted.json", SIGNATURE)}
    served.refresh()
    assert [one.number for one in served.all()] == [1]
    session.sql("ALTER MODEL m PROMOTE VERSION 2")
    later(version, key)
    served.refresh()
    assert [one.number for one in served.all()] == [2]
    for name, content in old.items():
        (folder / name).write_bytes(content)
    served.refresh()
    assert [one.number for one in served.all()] == [2]
    assert "older than one that was served" in lines[-1]


def later(version: Version, key: Path) -> None:
    """Sign a promotion an hour after now."""
    with mock.patch("time.time", return_value=time.time() + 3600):
        sign_promotion(version, key)


def test_a_service_of_a_named_version_asks_for_no_promotion(session: xpsql.Session, tmp_path: Path) -> None:
    session.sql("ALTER MODEL m PROMOTE VERSION 1")
    trusted = vouched(str(tmp_path / "team.pub.pem"), pinned=True)
    served = Served(session.models, ["m"], 2, print, vouched=trusted)
    assert [one.number for one in served.all()] == [2]

"""Signatures of versions: every byte counts, and so does the key."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import xpsql
from tests.training.log import log, write
from xpsql.platform.cli import main
from xpsql.platform.cli.serve import vouched
from xpsql.platform.errors import ModelError, StatementError
from xpsql.platform.progress import SilentReporter
from xpsql.platform.provenance.signature import SIGNATURE, SIGNED, sign, verify
from xpsql.platform.serving.served import Served
from xpsql.warehouse.version import Version

ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")


def key_in(folder: Path, name: str) -> Path:
    """Write a private key, and its public one beside it."""
    from cryptography.hazmat.primitives import serialization as of

    private = ed25519.Ed25519PrivateKey.generate()
    path = folder / f"{name}.pem"
    path.write_bytes(private.private_bytes(of.Encoding.PEM, of.PrivateFormat.PKCS8, of.NoEncryption()))
    public = private.public_key().public_bytes(of.Encoding.PEM, of.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub.pem").write_bytes(public)
    return path


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[Version]:
    """A version that was signed."""
    path = write(log(500), tmp_path / "log.parquet")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label AS SELECT label, user, item FROM parquet.`{path}`")
        version = session.models.version("m")
        (tmp_path / "team.pub").write_text(sign(version, key_in(tmp_path, "team")))
        yield version


def test_a_signed_version_is_verified_by_either_form_of_the_key(signed: Version, tmp_path: Path) -> None:
    for name in ("team.pub", "team.pub.pem"):
        assert "model:m v1" in verify(signed, tmp_path / name)


def test_the_files_are_those_of_minisign(signed: Version, tmp_path: Path) -> None:
    lines = (signed.folder / SIGNATURE).read_text().splitlines()
    raw, whole = base64.b64decode(lines[1]), base64.b64decode(lines[3])
    public = base64.b64decode((tmp_path / "team.pub").read_text().splitlines()[1])
    assert (raw[:2], public[:2], raw[2:10]) == (b"ED", b"Ed", public[2:10])
    key = ed25519.Ed25519PublicKey.from_public_bytes(public[10:])
    key.verify(raw[10:], hashlib.blake2b((signed.folder / SIGNED).read_bytes()).digest())
    key.verify(whole, raw[10:] + lines[2].removeprefix("trusted comment: ").encode())


def test_any_byte_that_changes_is_noticed(signed: Version, tmp_path: Path) -> None:
    chance = random.Random(1)
    for path in sorted(
        path for path in signed.folder.rglob("*") if path.is_file() and path.name not in ("lock", "progress.jsonl")
    ):
        if "serving" in path.parts:
            continue
        content = path.read_bytes()
        for _ in range(20):
            changed = bytearray(content)
            changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            if path.name == SIGNATURE and same_meaning(content, bytes(changed)):
                continue
            with pytest.raises(ModelError, match="not what somebody vouches for"):
                verify(signed, tmp_path / "team.pub")
        path.write_bytes(content)
    assert verify(signed, tmp_path / "team.pub")


def same_meaning(one: bytes, other: bytes) -> bool:
    """Return whether two signatures differ in the comment alone that nobody trusts, or in bits that base64 does not use."""
    try:
        lines, others = one.decode().splitlines(), other.decode().splitlines()
        return (
            len(others) == 4
            and others[0].startswith("untrusted comment: ")
            and all(base64.b64decode(lines[i], validate=True) == base64.b64decode(others[i], validate=True) for i in (1, 3))
            and lines[2] == others[2]
        )
    except ValueError:
        return False


def test_another_key_another_version_and_no_signature_are_refused(signed: Version, tmp_path: Path) -> None:
    key_in(tmp_path, "other")
    with pytest.raises(ModelError, match="signed by another key"):
        verify(signed, tmp_path / "other.pub.pem")
    with pytest.raises(StatementError, match=r"should be a public key.*got something else\. `xpsql sign --public FILE`"):
        verify(signed, tmp_path / "other.pem")
    with pytest.raises(StatementError, match=r"should be a private key.*got something else\. `openssl genpkey"):
        sign(signed, tmp_path / "other.pub.pem")
    with pytest.raises(StatementError, match=r"absent\.pem should be a private key.*got No such file or directory\. `openssl"):
        sign(signed, tmp_path / "absent.pem")
    (signed.folder / SIGNATURE).unlink()
    with pytest.raises(ModelError, match="it has no signature"):
        verify(signed, tmp_path / "team.pub")


def test_the_commands_sign_and_verify(tmp_path: Path) -> None:
    path, key = write(log(500), tmp_path / "log.parquet"), key_in(tmp_path, "team")
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label AS SELECT label, user, item FROM parquet.`{path}`")

    def ran(*arguments: str) -> Any:
        return CliRunner().invoke(main, [*arguments, "--warehouse", str(tmp_path / "warehouse")])

    public = tmp_path / "team.pub"
    bare = ran("verify", "m", "--signed-by", str(tmp_path / "team.pub.pem"))
    assert (bare.exit_code, "it has no signature" in bare.stderr) == (1, True)
    assert ran("sign", "m", "1", "--key", str(key), "--public", str(public)).exit_code == 0
    found = ran("verify", "m", "--signed-by", str(public))
    assert found.exit_code == 0, found.output
    assert "m v1 is as it was signed" in found.stdout


def test_a_service_serves_what_is_signed_and_goes_on_with_it(tmp_path: Path) -> None:
    path, key = write(log(500), tmp_path / "log.parquet"), key_in(tmp_path, "team")
    query, lines = f"SELECT label, user, item FROM parquet.`{path}`", list[str]()
    trusted = vouched(str(tmp_path / "team.pub.pem"))
    with xpsql.connect(tmp_path / "warehouse", reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL m USING xftrl LABEL label AS {query}")
        with pytest.raises(ModelError, match="it has no signature"):
            Served(session.models, ["m"], None, lines.append, vouched=trusted)
        sign(session.models.version("m"), key)
        served = Served(session.models, ["m"], None, lines.append, vouched=trusted)
        session.sql(f"CONTINUE MODEL m AS {query}")
        served.refresh()
        assert [one.number for one in served.all()] == [1]
        assert "Still serving m v1" in lines[-1]
        sign(session.models.version("m"), key)
        served.refresh()
        assert [one.number for one in served.all()] == [2]

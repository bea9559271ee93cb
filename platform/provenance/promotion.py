"""Signatures of promotions: who vouches for which version of a model is served.

`promoted.json` of a model's folder says it, and is a file of its own beside versions, each of which may be signed: without a
signature of it, who can write files could bring a signed version back that was taken out of service. `promoted.json.minisig`
signs its bytes, and the model's name, in the form of minisign.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ...warehouse.durable import replace_text, storing
from ...warehouse.folders import PROMOTED
from ...warehouse.version import Version
from ..errors import ModelError
from .signature import checked, private_key, public_key, signature_of, verify

SIGNATURE = f"{PROMOTED}.minisig"


def sign_promotion(version: Version, key: Path) -> bool:
    """Sign which version of a model ALTER MODEL ... PROMOTE chose, and return whether it chose one, or LAST.

    Args:
        version: any of the model.
        key: see sign.

    Raises:
        StatementError: it is no such file, or the package cryptography is not installed.
        ModelError: the folder is not writable.
    """
    folder, model = version.folder.parent, version.manifest.model
    if not (folder / PROMOTED).exists():
        return False
    text = (folder / PROMOTED).read_bytes()
    lines = signature_of(private_key(key), text, comment_of(model), f"the promotion of {model}")
    with storing(folder):
        replace_text(folder / SIGNATURE, lines)
    return True


def verify_promotion(version: Version, key: Path) -> int | None:
    """Verify the signature of a model's promotion, and return when it was signed, in seconds since 1970; None where nothing was
    promoted.

    Args:
        version: any of the model.
        key: a file with a public key, see verify.

    Raises:
        StatementError: it is no such file, or the package cryptography is not installed.
        ModelError: there is no signature, it is another one's, or the promotion has changed since.
    """
    folder, refuse = version.folder.parent, partial(refused, version.manifest.model)
    public = public_key(key)
    try:
        text = (folder / PROMOTED).read_bytes()
    except FileNotFoundError:
        if (folder / SIGNATURE).exists():
            raise refuse(f"{PROMOTED} is gone, and its signature is there") from None
        return None
    try:
        lines = (folder / SIGNATURE).read_text("utf-8").splitlines()
    except FileNotFoundError as error:
        raise refuse("it has no signature") from error
    except (OSError, UnicodeDecodeError) as error:
        raise refuse(f"its signature cannot be read ({error})") from error
    comment = checked(refuse, public, text, lines)
    time, _, rest = comment.partition("\t")
    if rest != comment_of(version.manifest.model):
        raise refuse("its signature is of another file or model")
    return int(time.removeprefix("timestamp:"))


def comment_of(model: str) -> str:
    return f"file:{PROMOTED}\tmodel:{model}"


def refused(model: str, why: str) -> ModelError:
    return ModelError(
        f"The promotion of model {model} is not what somebody vouches for: {why}. Look at which version is served, and "
        f"sign that by xpsql sign {model}."
    )


def vouching(key: Path, pinned: bool) -> Callable[[Version], object]:
    """Return what refuses versions that are not signed for a public key, or that an unsigned promotion, or one signed before
    another that was seen, puts into service.

    Args:
        pinned: the version that is served is named, and no promotion decides.
    """
    public_key(key)  # one that is none is an error now
    newest: dict[str, int] = {}

    def vouch(version: Version) -> None:
        verify(version, key)
        if pinned:
            return
        model = version.manifest.model
        signed = verify_promotion(version, key)
        if (signed or 0) < newest.get(model, 0):
            raise refused(model, "it is older than one that was served")
        newest[model] = signed or 0

    return vouch

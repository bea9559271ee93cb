"""The commands `xpsql sign` and `xpsql verify`: who vouches for a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .commands import chosen_of, failing, main, opened, session_options, writing

KEY = click.Path(dir_okay=False, path_type=Path)


@main.command()
@click.argument("model")
@click.argument("number", metavar="[VERSION]", type=click.IntRange(1), required=False)
@click.option("--key", type=KEY, required=True, help="A private key of Ed25519, as PEM.")
@click.option("--public", type=KEY, help="Write the public key there, in the form of minisign.")
@session_options
def sign(model: str, number: int | None, key: Path, public: Path | None, **options: Any) -> None:
    """Sign the bytes of a version of MODEL.

    Without VERSION: those of the version served, and that it is promoted.
    """
    chosen = chosen_of(options)
    with failing("", "", chosen.debug), opened(chosen) as session:
        from ..provenance.promotion import sign_promotion
        from ..provenance.signature import sign as signed

        with session.models.reading(model, number) as version:
            text = signed(version, key)
            if public is not None:
                with writing(f"the public key to {public}", "Give --public a file that you may write."):
                    public.write_text(text, encoding="utf-8")
            also = " and its promotion" if number is None and sign_promotion(version, key) else ""
            click.echo(f"Signed {version.manifest.model} v{version.number}{also}.")


@main.command()
@click.argument("model")
@click.argument("number", metavar="[VERSION]", type=click.IntRange(1), required=False)
@click.option("--signed-by", "key", type=KEY, required=True, help="A public key, of minisign or of Ed25519 as PEM.")
@session_options
def verify(model: str, number: int | None, key: Path, **options: Any) -> None:
    """Verify the signature and all bytes of a version of MODEL.

    Without VERSION: those of the version served, and that it is promoted.
    """
    chosen = chosen_of(options)
    with failing("", "", chosen.debug), opened(chosen) as session:
        from ..provenance.promotion import verify_promotion
        from ..provenance.signature import verify as verified

        with session.models.reading(model, number) as version:
            comment = verified(version, key)
            also = ", and so is its promotion" if number is None and verify_promotion(version, key) is not None else ""
            click.echo(f"{version.manifest.model} v{version.number} is as it was signed ({comment}){also}.")

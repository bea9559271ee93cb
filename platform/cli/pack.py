"""The command `xpsql pack`: what executors need as a file, where `xpsql submit` is not what starts the application."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import click

from ..errors import StatementError
from .commands import failing, main, writing

SUFFIX = ".zip"


@main.command()
@click.argument("output", metavar="OUT")
def pack(output: str) -> None:
    """Pack what executors need into OUT, for --archives of spark-submit.

    What it prints are the options: spark-submit $(xpsql pack executors.zip) ...
    """
    from .packing import FOLDER
    from .submit import entry

    with failing("", "", debug=False):
        target = packed(output)
        size = f"{target.stat().st_size / 1e6:.0f} MB"
        python = f"Python {sys.version_info.major}.{sys.version_info.minor} on {platform.machine()}"
        click.echo(f"{output} has xpsql and the packages that executors import, {size}, for {python}.", err=True)
        click.echo(f"The program of an application is {entry()}.", err=True)
        click.echo(f"--archives {output}#{FOLDER} --conf spark.executorEnv.PYTHONPATH={FOLDER}")


def packed(output: str) -> Path:
    """Write the archive, in the place of an older one, and return its path.

    Raises:
        StatementError: it is named otherwise than an archive that Spark unpacks, or lies in a warehouse.
    """
    from ..engines.targets import free_path
    from .packing import environment_archive

    target = free_path(output, "The archive", None)
    if target.suffix != SUFFIX:
        raise StatementError(
            f"Spark unpacks archives by their names, and {output} does not end in {SUFFIX}: call it {target.stem}{SUFFIX}."
        )
    draft = target.with_name(f".{target.name}.part")
    with writing(f"the archive to {output}", "Give a file in a folder that exists, that you may write and that has space."):
        try:
            shutil.copyfile(environment_archive(), draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    return target

"""The command `xpsql status`: the resident trainings and their progress."""

from __future__ import annotations

import sys
from typing import Any

import click

from .commands import chosen_of, failing, main, opened, session_options, writing
from .output import FORMATS

NONE = 1


@main.command()
@click.argument("name", required=False)
@session_options
def status(name: str | None, **options: Any) -> None:
    """Show resident trainings (PUBLISH EVERY): their state and lag.

    With NAME, of that model only. The exit code is 1 if there is none.
    """
    chosen = chosen_of(options)
    with failing("", "", chosen.debug), opened(chosen) as session:
        from ..models.listings import residents_table

        found = residents_table(session.models, name)
        with writing("the result to stdout", "Free space where it goes, or send it elsewhere."):
            FORMATS[chosen.format](found)
    if not found.num_rows:
        sys.exit(NONE)

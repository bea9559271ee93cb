"""The command `xpsql check`: a dry run of a network outside of a statement."""

from __future__ import annotations

import ast
import math
from typing import Any

import click

from .commands import failing, main

INPUTS = "Names of {}, separated by commas."


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def arguments(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Read every `name=value`: a number, a tuple, True, None, or text as it is."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name.isidentifier() or not equals:
            raise click.BadParameter(f"expected name=value, got {text!r}")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--class",
    "class_",
    metavar="NAME",
    help="The network's class. [default: init and apply, or the only network]",
)
@click.option("--slots", default="user,item", show_default=True, help=INPUTS.format("slots that have a vector"))
@click.option("--dense", default="price", show_default=True, help=INPUTS.format("numbers"))
@click.option("--history", default="", help=INPUTS.format("arrays of what a user had"))
@click.option("--target", default="", help=INPUTS.format("the slots of what is offered"))
@click.option("--labels", default="click", show_default=True, help=INPUTS.format("columns to predict"))
@click.option("--dim", default=16, show_default=True, help="Elements of a vector.")
@click.option("--debug", is_flag=True, help="Show where in xpsql an error comes from.")
@click.argument("given", nargs=-1, metavar="[NAME=VALUE]...", callback=arguments)
def check(file: str, class_: str | None, dim: int, debug: bool, given: dict[str, Any], **inputs: str) -> None:
    """Try the network in FILE on a few examples with these inputs.

    NAME=VALUE are arguments of its constructor. Prints its parameters and what it returns. If it fails, it prints the
    line of FILE, and the exit code is 1.
    """
    with failing("", "", debug):
        for line in tried(file, class_, dim, given, {role: names(text) for role, text in inputs.items()}):
            click.echo(line)


def tried(file: str, class_: str | None, dim: int, given: dict[str, Any], inputs: dict[str, tuple[str, ...]]) -> list[str]:
    """Return a line for each parameter of a network, for all of them, and for what it returns.

    Raises:
        StatementError, OptionError: as a training would.
    """
    from ...algorithms.base import Layout
    from ...algorithms.blocks.histories import HISTORIES, HistorySlots
    from ...algorithms.bridges.network import NETWORK_PART, dry_run, everything
    from ..errors import Position
    from ..options import Value
    from ..parts import ALGORITHM
    from ..training.compiled import limit_threads

    limit_threads(1)
    histories = (HistorySlots("history", inputs["history"]),) if inputs["history"] else ()
    layout = Layout(inputs["slots"], continuous=inputs["dense"], labels=inputs["labels"]).having(HISTORIES, histories)
    own = {"class": class_, "dim": dim, "target": inputs["target"], "history": inputs["history"], **given}
    values = {name: Value(value) for name, value in own.items() if value is not None}
    values["file"] = Value(file, Position(1, 1, file))  # as a statement would give it
    found = dry_run(ALGORITHM.options(NETWORK_PART, values), layout)
    shapes = everything(found.net)
    total = sum(math.prod(shape) for shape in shapes.values())
    return [
        *(f"{name}  float32{list(shape)}" for name, shape in shapes.items()),
        f"{total:,} floats in {len(shapes)} parameters",
        f"returns {found.outputs.dtype}{['batch', *found.outputs.shape[1:]]}".replace("'", ""),
    ]

"""`xpsql ps`: a parameter server for programs, as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import StatementError, TrainingError
from .commands import failing, main
from .output import FORMATS
from .serve import say

if TYPE_CHECKING:
    from ..parameters.client import ParameterServer
    from ..parameters.declared import DeclaredTable
    from ..parameters.opening import ServiceFolder

LOOK_SECONDS = 0.1
TAIL_BYTES = 4096
ERROR = "Error: "
LIKE = " Write it like 'item: dim = 16, operators = (adagrad)'."


@main.group()
def ps() -> None:
    """Run a parameter server for programs."""


WAREHOUSE = click.option(
    "--warehouse", metavar="URL", help="Folder of tables and models. [default: $XPSQL_WAREHOUSE, ./xpsql_warehouse]"
)
DEBUG = click.option("--debug", is_flag=True, envvar="XPSQL_DEBUG", help="Show tracebacks of errors.")
TIMEOUT = click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    help="How long to wait, at most.",
)


@ps.command()
@click.argument("name")
@click.option(
    "--table",
    "tables",
    metavar="'NAME: dim = N, operators = (...)'",
    multiple=True,
    help="A table; repeatable. Also slots = (a, b) and init = 0.01. [default: those that it had]",
)
@click.option("--shards", type=click.IntRange(1, 1024), help="Processes that hold the rows. [default: as many as it had, or 1]")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what new rows begin with.")
@click.option("--begins", metavar="MODEL", help="A model that commit made, whose rows a new server begins with.")
@click.option(
    "--checkpoint-seconds", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds between checkpoints."
)
@click.option("--encrypt", is_flag=True, help="Use TLS between processes.")
@click.option("--foreground", is_flag=True, help="Stay here until it is stopped.")
@WAREHOUSE
@TIMEOUT
@DEBUG
def start(name: str, warehouse: str | None, timeout: float, debug: bool, foreground: bool, **given: Any) -> None:
    """Start parameter server NAME and return when it serves.

    It goes on from its newest checkpoint.
    """
    with failing("", "", debug):
        folder = place_of(warehouse, name)
        if foreground:
            hold(name, warehouse, **given)
            return
        check_tables(given["tables"], given["seed"])
        folder.path.mkdir(parents=True, exist_ok=True)
        log = folder.path / "log"
        command = [sys.executable, "-m", "xpsql", *sys.argv[1:], "--foreground"]
        with log.open("ab") as file:
            at = log.stat().st_size
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        wait_for(process, folder, log, at, timeout)


def check_tables(texts: tuple[str, ...], seed: int) -> None:
    """Refuse tables that cannot be before a process is started."""
    from ..parameters.declared import declared

    if tables := tables_of(texts):
        declared(tables, seed)


def tables_of(texts: tuple[str, ...]) -> dict[str, DeclaredTable]:
    """Return the tables that options say.

    Raises:
        StatementError: one is not written as tables are, with its text and where in it; or two have one name.
    """
    from ..parameters.declared import read_table

    found: dict[str, DeclaredTable] = {}
    for text in texts:
        try:
            name, table = read_table(text)
        except StatementError as error:
            where = "" if error.position is None else f", column {error.position.column}"
            raise type(error)(f"--table {text!r}{where}: {error.message}{LIKE}", subject=error.subject) from error
        if name in found:
            raise StatementError(f"--table {text!r}: another table is named {name}, too. Give each a name of its own.")
        found[name] = table
    return found


def wait_for(process: subprocess.Popen[bytes], folder: ServiceFolder, log: Path, at: int, timeout: float) -> None:
    """Wait until a server serves.

    Args:
        at: where its lines begin in the log.

    Raises:
        TrainingError: it ended, or does not serve in time.
    """
    from ..parameters.contact import read_contact

    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (code := process.poll()) is not None:
            lines = log.read_bytes()[at:][-TAIL_BYTES:].decode(errors="replace").strip()
            ended = f"Parameter server {folder.path.name} ended with {code}:\n{lines}"
            raise TrainingError(lines.removeprefix(ERROR) if lines.startswith(ERROR) else ended)
        if folder.contact.exists() and (contact := read_contact(folder.path.name, folder)).process == process.pid:
            say(f"Parameter server {contact.name} serves at {contact.address}, process {contact.process}; its log is {log}.")
            return
        time.sleep(LOOK_SECONDS)
    process.terminate()
    raise TrainingError(f"Parameter server {folder.path.name} does not serve after {timeout:g} s, and was ended; see {log}.")


def hold(
    name: str,
    warehouse: str | None,
    tables: tuple[str, ...],
    shards: int | None,
    seed: int,
    begins: str | None,
    checkpoint_seconds: float,
    encrypt: bool,
) -> None:
    """Hold a server until it is stopped."""
    from ..parameters.holder import Holder
    from ..parameters.opening import opened
    from ..parameters.processes import LocalProcesses
    from ..training.compiled import limit_threads, prepare_jax

    limit_threads(1)
    prepare_jax()
    held = opened(path_of(warehouse), name, tables_of(tables) or None, shards, seed, begins)
    with Holder(held, LocalProcesses(), encrypt, checkpoint_seconds, say) as holder:
        signal.signal(signal.SIGTERM, lambda *_: holder.stopping.set())
        say(f"Parameter server {name} serves at {holder.contact.address}.")
        holder.wait()
    say(f"Parameter server {name} has stopped.")


@ps.command()
@click.argument("name")
@WAREHOUSE
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="table", help="How rows are written to stdout.")
@DEBUG
def status(name: str, warehouse: str | None, form: str, debug: bool) -> None:
    """Show the tables of parameter server NAME."""
    import pyarrow as pa

    with failing("", "", debug), reached(name, warehouse) as server:
        said, contact = dict(server.status()), server.contact
        assert contact is not None
        tables = said.pop("tables")
        about = {"server": said.pop("name"), "address": str(contact.address), "process": contact.process, **said}
        about["clients"] -= 1  # this one
        rows = [{"table": table, **{k: v for k, v in one.items() if k != "reports"}, **about} for table, one in tables.items()]
        FORMATS[form](pa.Table.from_pylist(rows))


@ps.command()
@click.argument("name")
@click.option("--model", required=True, help="The model that gets a version.")
@click.option("--file", "files", metavar="PATH", multiple=True, help="A file that is kept with the version; repeatable.")
@click.option("--examples", type=click.IntRange(0), default=0, help="Examples that were learned.")
@WAREHOUSE
@DEBUG
def commit(name: str, model: str, files: tuple[str, ...], examples: int, warehouse: str | None, debug: bool) -> None:
    """Make a version of the rows of parameter server NAME."""
    with failing("", "", debug), reached(name, warehouse) as server:
        number = server.commit(model, {Path(path).name: path for path in files}, examples)
        click.echo(f"{model} v{number}")


@ps.command()
@click.argument("name")
@click.option("--no-checkpoint", is_flag=True, help="Forget what was pushed since the last checkpoint.")
@WAREHOUSE
@TIMEOUT
@DEBUG
def stop(name: str, no_checkpoint: bool, warehouse: str | None, timeout: float, debug: bool) -> None:
    """Stop parameter server NAME after a last checkpoint."""
    with failing("", "", debug):
        folder = place_of(warehouse, name)
        with reached(name, warehouse) as server:
            holder = folder.lock.read_bytes()
            server.order("stop", {"checkpoint": not no_checkpoint})
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if folder.left_by(holder):
                say(f"Parameter server {name} has stopped.")
                return
            time.sleep(LOOK_SECONDS)
        raise TrainingError(f"Parameter server {name} has not stopped within {timeout:g} s; see {folder.path / 'log'}.")


def reached(name: str, warehouse: str | None) -> ParameterServer:
    """Return a server that runs."""
    from ..parameters.remote_server import connect

    return connect(path_of(warehouse), name)


def place_of(warehouse: str | None, name: str) -> ServiceFolder:
    from ..parameters.opening import folder_of

    return folder_of(path_of(warehouse), name)


def path_of(warehouse: str | None) -> str:
    from ..session import DEFAULT_WAREHOUSE

    return warehouse or os.environ.get("XPSQL_WAREHOUSE", DEFAULT_WAREHOUSE)

"""The command `xpsql serve`."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import StatementError
from ..trust import TRUST
from .commands import failing, main, writing
from .startup import skip_pandas

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..decisions.policies import Policy

LOCAL = ("127.0.0.1", "::1", "localhost")
TOKEN = "XPSQL_TOKEN"
MOST_THREADS = 256
SWITCH_SECONDS = 0.0005
"""How long a thread that has Python's lock may keep it from others; the interpreter's 5 ms would be a request's latency."""


@main.command()
@click.argument("names", metavar="MODEL...", nargs=-1, required=True)
@click.option("--warehouse", metavar="URL", help="Folder of tables and models. [default: $XPSQL_WAREHOUSE, ./xpsql_warehouse]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 for all.")
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen at.")
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    default=1,
    show_default=True,
    help="How many requests are answered at once.",
)
@click.option(
    "--version", "number", type=int, help="Serve this version and no other. [default: the one served, and those after]"
)
@click.option("--token-file", metavar="FILE", help=f"File with the bearer token that requests must have. [default: ${TOKEN}]")
@click.option("--certificate", metavar="FILE", help="Certificate of TLS, as PEM; with --key.")
@click.option("--key", metavar="FILE", help="Private key of TLS, as PEM.")
@click.option("--log-requests", metavar="DIR", help="Folder where scored requests are written as Parquet, for ML.REPLAY.")
@click.option(
    "--log-fraction", type=click.FloatRange(0, 1), default=0.01, show_default=True, help="The fraction of requests that is."
)
@click.option(
    "--explore",
    metavar="POLICY",
    help="Choose among candidates by 'epsilon(0.05)' or 'softmax(0.2, floor = 0.01)' where a request asks; with a log.",
)
@click.option(
    "--history",
    "histories",
    metavar="COLUMN=NAME.VALUE",
    multiple=True,
    help="Fill a column that requests of JSON lack with what their user did last, by CREATE HISTORY. May be given again.",
)
@click.option("--signed-by", metavar="FILE", help="Serve versions alone that xpsql sign has signed for this public key.")
@click.option(
    "--fp16", "half", is_flag=True, help="Hold 16 bits a float: half the memory, and predictions that differ a little."
)
@click.option("--trust", is_flag=True, help="Run the source text that models carry, now and later.")
@click.option("--debug", is_flag=True, envvar="XPSQL_DEBUG", help="Show tracebacks of errors.")
def serve(
    names: tuple[str, ...],
    warehouse: str | None,
    host: str,
    port: int,
    threads: int,
    number: int | None,
    token_file: str | None,
    certificate: str | None,
    key: str | None,
    log_requests: str | None,
    log_fraction: float,
    explore: str | None,
    histories: tuple[str, ...],
    signed_by: str | None,
    half: bool,
    trust: bool,
    debug: bool,
) -> None:
    """Answer requests for predictions of MODEL... by HTTP, until it is asked to stop."""
    with failing("", "", debug):
        if (certificate is None) != (key is None):
            raise click.UsageError("--certificate and --key go together.")
        policy = None if explore is None else exploring(explore, log_requests)
        token = token_of(token_file)
        if host not in LOCAL and token is None:
            say(f"Everybody who reaches {host}:{port} can ask: there is no token. --token-file or ${TOKEN} sets one.")
        skip_pandas()

        from ...warehouse.catalog import Catalog
        from ..cores import cores
        from ..engines.targets import free_path
        from ..histories.stored import StoredHistories
        from ..serving.histories import FilledColumns
        from ..serving.http import Service
        from ..serving.refusal import RequestLimits
        from ..serving.request_log import RequestLog
        from ..serving.served import Served
        from ..serving.server import Listening, require_httptools, tls_of, try_address
        from ..serving.server import serve as answer
        from ..session import DEFAULT_WAREHOUSE, warehouse_path
        from ..training.compiled import limit_threads, share_work

        folder = None if log_requests is None else free_path(log_requests, "The folder of --log-requests", None)
        require_httptools()
        if trust:
            TRUST.allow(keep=True)
        limit_threads(1)  # small batches; a request has a thread, not a core's share of several
        share_work(cores())
        listening = Listening(host, port, threads, tls_of(path_of(certificate), path_of(key)))
        asyncio.run(try_address(listening))
        say(f"Loading {', '.join(names)}.")
        models = Catalog(warehouse_path(warehouse or os.environ.get("XPSQL_WAREHOUSE", DEFAULT_WAREHOUSE)))
        served = Served(models, names, number, say, half, apart=True, vouched=vouched(signed_by))
        log = None if folder is None else RequestLog(folder, log_fraction, say, policy is not None)
        if log is not None:
            with writing(f"requests to {log_requests}", "Give --log-requests a folder that you may write."):
                log.start()
        columns = FilledColumns(StoredHistories(models.warehouse), histories, say)
        columns.start()
        served.start()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is loaded now stays; to look through it for garbage takes tens of milliseconds
        listed = ", ".join(f"{one.model} v{one.number}" for one in served.all())
        try:
            broken = lambda: say(traceback.format_exc())  # noqa: E731
            service = Service(served, RequestLimits(), token, log, broken, columns.filled, policy)
            answer(service, listening, lambda: say(f"Serving {listed} at {listening.address}"))
        finally:
            served.stop()
            columns.stop()
            if log is not None:
                log.stop()
        say("Ended.")


def exploring(text: str, log_requests: str | None) -> Policy:
    """Return the policy of --explore.

    Raises:
        StatementError: it is none, or some candidates would never be chosen.
        UsageError: what is chosen is not logged.
    """
    from ..decisions.policies import Policy

    if log_requests is None:
        raise click.UsageError(
            "--explore needs --log-requests: what was chosen by chance tells nothing where it is not logged."
        )
    policy = Policy.of(text)
    if not policy.explores:
        raise StatementError("--explore needs a policy that may choose every candidate: 'epsilon(0.05)' or 'softmax(0.2)'.")
    return policy


def token_of(file: str | None) -> str | None:
    """Return the bearer token of a file, or of the environment; None for none.

    Raises:
        StatementError: the file cannot be read, or is empty.
    """
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"The file of --token-file, {file}, cannot be read: {error}.") from error
    if not token:
        raise StatementError(f"The file of --token-file, {file}, is empty; put the token into it.")
    return token


def path_of(file: str | None) -> Path | None:
    return None if file is None else Path(file)


def say(line: str) -> None:
    """Write a line to stderr at once."""
    print(line, file=sys.stderr, flush=True)


def vouched(signed_by: str | None) -> Callable[[Version], object]:
    """Return what refuses versions that are not signed for a public key; nothing is refused without one."""
    if signed_by is None:
        return bool
    from ..provenance.signature import public_key, verify

    key = Path(signed_by)
    public_key(key)  # one that is none is an error now
    return lambda version: verify(version, key)

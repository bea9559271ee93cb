"""The command `xpsql serve`."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import StatementError
from ..trust import TRUST
from .commands import failing, main, writing
from .startup import skip_pandas

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..training.policies.policies import Policy

LOCAL = ("127.0.0.1", "::1", "localhost")
TOKEN = "XPSQL_TOKEN"
MOST_THREADS = 256
SWITCH_SECONDS = 0.0005
"""How long a thread that has Python's lock may keep it from others; the interpreter's 5 ms would be a request's latency."""


class ServeOptions(NamedTuple):
    """What the command line gives, see the options' help."""

    names: tuple[str, ...]
    warehouse: str | None
    host: str
    port: int
    threads: int
    number: int | None
    token_file: str | None
    certificate: str | None
    key: str | None
    log_requests: str | None
    log_fraction: float
    explore: str | None
    histories: tuple[str, ...]
    features: tuple[str, ...]
    signed_by: str | None
    half: bool
    interval: float | None
    trust: bool


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
    "--log-fraction", type=click.FloatRange(0, 1), default=0.01, show_default=True, help="The fraction of requests to log."
)
@click.option(
    "--explore",
    metavar="POLICY",
    help="Choose among candidates if a request asks, by 'epsilon(0.05)' or 'softmax(0.2, floor = 0.01)'; needs --log-requests.",
)
@click.option(
    "--history",
    "histories",
    metavar="COLUMN=NAME.VALUE",
    multiple=True,
    help="Fill a column that JSON requests lack from a history (CREATE HISTORY); repeatable.",
)
@click.option(
    "--features",
    metavar="NAME",
    multiple=True,
    help="Fill columns that JSON requests lack from features of their key (CREATE FEATURES); repeatable.",
)
@click.option("--signed-by", metavar="FILE", help="Serve only versions that xpsql sign has signed for this public key.")
@click.option("--fp16", "half", is_flag=True, help="Keep floats in 16 bits: half the memory, slightly different predictions.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Also answer the bounds that contain this share of labels; only models of numbers.",
)
@click.option("--trust", is_flag=True, help="Trust and run the source code in models, now and later.")
@click.option("--debug", is_flag=True, envvar="XPSQL_DEBUG", help="Show tracebacks of errors.")
def serve(debug: bool, **given: Any) -> None:
    """Answer requests for predictions of models by HTTP."""
    with failing("", "", debug):
        serve_models(ServeOptions(**given))
        say("Ended.")


def serve_models(given: ServeOptions) -> None:
    """Load models and answer requests, until it is asked to stop."""
    if (given.certificate is None) != (given.key is None):
        raise click.UsageError("--certificate and --key go together.")
    policy = None if given.explore is None else exploring(given.explore, given.log_requests)
    token = token_of(given.token_file)
    if given.host not in LOCAL and token is None:
        say(f"Anybody who reaches {given.host}:{given.port} can ask: there is no token. --token-file or ${TOKEN} sets one.")
    skip_pandas()

    from ...warehouse.catalog import Catalog
    from ..cores import cores
    from ..engines.targets import free_path
    from ..feature_tables.kept_features import StoredFeatures
    from ..histories.stored import StoredHistories
    from ..serving.features_lookup import counted, lookups_of
    from ..serving.histories import FilledColumns
    from ..serving.http import Service
    from ..serving.refusal import RequestLimits
    from ..serving.request_log import RequestLog
    from ..serving.served import Served
    from ..serving.server import Listening, require_httptools, tls_of, try_address
    from ..serving.server import serve as answer
    from ..session import DEFAULT_WAREHOUSE, warehouse_path
    from ..training.compiled import limit_threads, share_work

    folder = None if given.log_requests is None else free_path(given.log_requests, "The folder of --log-requests", None)
    require_httptools()
    if given.trust:
        TRUST.allow(keep=True)
    limit_threads(1)  # small batches; a request has a thread, not a core's share of several
    share_work(cores())
    listening = Listening(given.host, given.port, given.threads, tls_of(path_of(given.certificate), path_of(given.key)))
    asyncio.run(try_address(listening))
    say(f"Loading {', '.join(given.names)}.")
    models = Catalog(warehouse_path(given.warehouse or os.environ.get("XPSQL_WAREHOUSE", DEFAULT_WAREHOUSE)))
    signed = vouched(given.signed_by, given.number is not None)
    served = Served(models, given.names, given.number, say, given.half, True, signed, given.interval)
    log = None if folder is None else RequestLog(folder, given.log_fraction, say, policy is not None)
    tables = lookups_of(StoredFeatures(models.warehouse), given.features)
    columns = FilledColumns(StoredHistories(models.warehouse), given.histories, say, tables)
    with ExitStack() as running:
        if log is not None:
            with writing(f"requests to {given.log_requests}", "Give --log-requests a folder that you may write."):
                log.start()
            running.callback(log.stop)
        columns.start()
        running.callback(columns.stop)
        served.start()
        running.callback(served.stop)
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is loaded now stays; to look through it for garbage takes tens of milliseconds
        listed = ", ".join(f"{one.model} v{one.number}" for one in served.all())
        broken = lambda: say(traceback.format_exc())  # noqa: E731
        service = Service(served, RequestLimits(), token, log, broken, columns.filled, policy, counted(tables))
        answer(service, listening, lambda: say(f"Serving {listed} at {listening.address}"))


def exploring(text: str, log_requests: str | None) -> Policy:
    """Return the policy of --explore.

    Raises:
        StatementError: it is none, or some candidates would never be chosen.
        UsageError: what is chosen is not logged.
    """
    from ..training.policies.policies import Policy

    if log_requests is None:
        raise click.UsageError("--explore needs --log-requests: a choice by chance is of no use unless it is logged.")
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


def vouched(signed_by: str | None, pinned: bool = False) -> Callable[[Version], object]:
    """Return what refuses versions that are not signed for a public key; nothing is refused without one."""
    if signed_by is None:
        return bool
    from ..provenance.promotion import vouching

    return vouching(Path(signed_by), pinned)

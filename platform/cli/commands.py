"""The commands and their options."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, TypeVar

import click

from ..engines import ENGINES
from ..engines.kind import EngineKind
from ..engines.spark.environment import SUBMITTED
from ..engines.spark.kind import SPARK
from ..errors import EngineEndedError, LostError, XpsqlError
from ..options import describe as declared
from ..progress import reporter_for
from ..result import Result
from ..session import Session, default_engine, engine_named, pending
from .failure import MODULES, CommandGroup, describe, interruption
from .journal import Journal
from .output import FORMATS, separate
from .startup import skip_pandas
from .supervision import INTENDED, LOST, supervise

F = TypeVar("F", bound=Callable[..., Any])
BYTE_ORDER_MARK = "\ufeff"  # editors of Windows begin a file with it


class Choices(NamedTuple):
    """The options that `run`, `sql` and `shell` share."""

    variables: dict[str, str]
    engine: str | None
    of_engine: dict[str, Any]
    warehouse: str | None
    format: str
    quiet: bool
    debug: bool
    resume: bool
    trust: bool


def variables(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read every `name=value` of -D."""
    for text in given:
        if not text.partition("=")[0].isidentifier() or "=" not in text:
            raise click.BadParameter(f"expected name=value, got {text!r}")
    return dict(text.split("=", 1) for text in given)


def settings(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read every `key=value` of --conf."""
    for text in given:
        if not text.partition("=")[0] or "=" not in text:
            raise click.BadParameter(f"expected key=value, got {text!r}")
    return dict(text.split("=", 1) for text in given)


def engine_options(kind: EngineKind[Any], without: str = "") -> list[Callable[[F], F]]:
    """Return the options of the command line that an engine declares, but for one."""
    made = []
    for described in (option for option in declared(kind.options) if option.name != without):
        repeated = described.type.startswith("mapping")
        named = {"metavar": "KEY=VALUE", "multiple": True, "callback": settings} if repeated else {"metavar": "VALUE"}
        made.append(click.option(f"--{described.name}", help=f"{described.help[0].upper()}{described.help[1:]}.", **named))
    return made


OPTIONS = (
    click.option(
        "-D",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=variables,
        help="Value of ${name} or ${name:-default}; repeatable.",
    ),
    click.option(
        "--engine",
        type=click.Choice([kind.name for kind in ENGINES]),
        help="Where queries run. [default: duckdb; spark with --master and under spark-submit]",
    ),
    *(option for kind in ENGINES for option in engine_options(kind)),
    click.option(
        "--warehouse", metavar="URL", help="Folder of tables and models. [default: $XPSQL_WAREHOUSE, ./xpsql_warehouse]"
    ),
    click.option("--format", type=click.Choice(list(FORMATS)), default="table", help="How rows are written to stdout."),
    click.option("--resume", is_flag=True, help="Resume interrupted trainings of the same statements."),
    click.option("--trust", is_flag=True, help="Trust and run the source code in models, now and later."),
    click.option("--quiet", is_flag=True, help="Do not show progress."),
    click.option("--debug", is_flag=True, envvar="XPSQL_DEBUG", help="Show tracebacks of errors."),
)


def session_options(command: F) -> F:
    """Add the options of `Choices` to a command."""
    return with_options(command, OPTIONS)


def with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def chosen_of(options: dict[str, Any]) -> Choices:
    """Return the values of a command's options; engine options are kept together, without absent ones."""
    names = {described.name for kind in ENGINES for described in declared(kind.options)}
    of_engine = {name: value for name, value in options.items() if name in names and value not in (None, {})}
    return Choices(of_engine=of_engine, **{name: value for name, value in options.items() if name not in names})


def print_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"xpsql {version('xpsql')}")
        context.exit()


@click.group(cls=CommandGroup, modules=MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show the version.")
def main() -> None:
    """Train large sparse models with SQL."""


RESTART = click.option(
    "--restart",
    "restarts",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Start again if the process dies, at most N times. Ended statements are not run again, and a training is resumed.",
)


@main.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@session_options
@RESTART
def run(file: IO[str], restarts: int, **options: Any) -> None:
    """Run the statements of FILE, or of stdin if FILE is -."""
    chosen, journal = chosen_of(options), Journal.inherited()
    if journal is not None:
        execute_file(file, chosen._replace(resume=chosen.resume or journal.goes_on), journal)
    elif restarts:
        sys.exit(restarted(file, restarts))
    else:
        execute_file(file, chosen, None)


def restarted(file: IO[str], restarts: int) -> int:
    """Run this command in a process of its own, again where that dies, and return its exit code."""
    if file.name == "<stdin>":
        raise click.BadParameter("--restart reads the script again; give it a file in place of -.")
    if SUBMITTED in os.environ:
        raise click.BadParameter("--restart starts Spark again, too; give it to xpsql submit.")
    with failing("", file.name, debug=False):
        return supervise([sys.executable, "-m", "xpsql", *sys.argv[1:]], os.environ, restarts, time.sleep)


@main.command()
@click.argument("text")
@session_options
def sql(text: str, **options: Any) -> None:
    """Run the statements in TEXT."""
    execute(text, "", chosen_of(options), None)


@main.command()
@click.argument("name")
@click.option("-o", "--output", metavar="FILE", help="The page to write. [default: NAME.html]")
@click.option(
    "--version",
    "numbers",
    type=int,
    multiple=True,
    help="A version to show; repeatable. [default: the one served]",
)
@click.option("--compare", metavar="NAME", multiple=True, help="Another model to show next to it, by the version served.")
@click.option("--on", "rows", metavar="QUERY", help="Measure on these rows, too, and compare with intervals.")
@click.argument("others", nargs=-1)
@session_options
def report(
    name: str,
    others: tuple[str, ...],
    output: str | None,
    numbers: tuple[int, ...],
    compare: tuple[str, ...],
    rows: str | None,
    **options: Any,
) -> None:
    """Write an HTML page about the training of model NAME.

    --compare a b shows two models side by side.
    """
    from ..engines.targets import free_path
    from .report import report as page

    chosen = chosen_of(options)
    if others and not compare:
        raise click.BadParameter(f"write --compare {name} {others[0]} to show models side by side.")
    models = [*compare, name, *others]
    output = output or f"{'-'.join(models)}.html"
    with failing("", "", chosen.debug), opened(chosen) as session:
        target = free_path(output, "The page of -o", None)
        text = page(session, [(model, number) for model in models for number in numbers or (None,)], rows)
        with writing(f"the page to {output}", "Give -o a file in a folder that exists, that you may write and that has space."):
            target.write_text(text, encoding="utf-8")


@main.command()
@session_options
def shell(**options: Any) -> None:
    """Read statements from the terminal, with history and completion."""
    chosen = chosen_of(options)
    if not sys.stdin.isatty():
        with click.open_file("-", encoding="utf-8") as file:
            execute_file(file, chosen, None)
        return
    with failing("", "", chosen.debug), opened(chosen) as session:
        from .shell import read_statements

        session.engine  # noqa: B018  it starts before the first statement is asked for
        read_statements(session, chosen.variables, FORMATS[chosen.format], chosen.debug)


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@functools.partial(with_options, options=engine_options(SPARK, "remote"))
@click.option(
    "--deploy-mode", "mode", type=click.Choice(["client", "cluster"]), help="Where the driver runs. [default: client]"
)
@click.option("--python", default="python3", help="The Python of executors, of the same minor version. [default: python3]")
@RESTART
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def submit(
    file: str,
    master: str | None,
    conf: dict[str, str],
    mode: str | None,
    python: str,
    restarts: int,
    arguments: tuple[str, ...],
) -> None:
    """Run the statements of FILE on a cluster, by spark-submit.

    Takes the options of `run`, too.
    """
    from .submit import MODE, driver_of, started, submission

    if mode is not None:
        conf[MODE] = mode
    remote = conf.get(MODE) == "cluster"
    if restarts and remote:
        raise click.BadParameter("--restart needs the driver on this machine; with deployMode=cluster the cluster restarts it.")
    with failing("", "", debug=False):
        command, environment = submission(master, conf, python, file, arguments)
    code = supervise(command, environment, restarts, time.sleep, started, driver_of)
    if remote and code in INTENDED:
        click.echo(
            "What the cluster has started goes on there: yarn application -kill ID, or kubectl delete, ends it.", err=True
        )
    sys.exit(code)


def read(file: IO[str]) -> str:
    try:
        return file.read().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{file.name} is not UTF-8 text: {error}") from error


def execute_file(file: IO[str], chosen: Choices, journal: Journal | None) -> None:
    """Run the statements of a file."""
    with failing("", file.name, chosen.debug):
        text = read(file)
    execute(text, file.name, chosen, journal)


def execute(text: str, name: str, chosen: Choices, journal: Journal | None) -> None:
    """Run statements and write the result of each; leave with the exit code.

    Args:
        journal: says which statements are left, and records each; None: all are.
    """
    with failing(text, name, chosen.debug), opened(chosen) as session:
        written = False
        for result in results(session, text, chosen.variables, journal):
            if result.table is not None:
                if written:
                    separate(chosen.format)
                with writing("the result to stdout", "Free space where it goes, or send it elsewhere."):
                    FORMATS[chosen.format](result.table)
                written = True


def results(session: Session, text: str, variables: dict[str, str], journal: Journal | None) -> Iterator[Result]:
    if journal is None:
        return session.run(text, variables, None)
    return journal.run(session, session.parse(text, variables, None), text)


def opened(chosen: Choices) -> Session:
    """Open a session; Spark starts when a statement needs it."""
    reporter = reporter_for(sys.stderr, chosen.quiet)
    kind = default_engine(chosen.of_engine) if chosen.engine is None else engine_named(chosen.engine)
    if not kind.needs_pandas:
        skip_pandas()
    return pending(chosen.warehouse, chosen.engine, reporter, resume=chosen.resume, trust=chosen.trust, **chosen.of_engine)


@contextmanager
def writing(what: str, advice: str) -> Iterator[None]:
    """Turn failures to write output into an error; a reader of stdout that has gone is no failure."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise XpsqlError(f"Cannot write {what}: {error.strerror or error}. {advice}") from error
    except UnicodeEncodeError as error:
        why = f"its encoding, {error.encoding}, has no {error.object[error.start]!r}"
        raise XpsqlError(f"Cannot write {what}: {why}. Choose a locale of UTF-8, such as LC_ALL=C.UTF-8.") from error


@contextmanager
def failing(text: str, name: str, debug: bool) -> Iterator[None]:
    """Turn an error into a readable message and its exit code."""
    try:
        yield
    except click.ClickException:
        raise
    except KeyboardInterrupt as stopped:
        click.echo(interruption(stopped), err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of stdout has gone (`| head`); what Python still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        click.echo(describe(error, text, name, debug), err=True)
        sys.exit(LOST if isinstance(error, LostError | EngineEndedError) else 1)

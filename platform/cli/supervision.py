"""`--restart n`: a supervisor that restarts a process that died, and lets it continue where it stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

import click

from ..display import plural
from .journal import VARIABLE, Journal

LOST = 75  # EX_TEMPFAIL of sysexits.h
INTENDED = {129: "SIGHUP", 130: "SIGINT", 141: "SIGPIPE", 143: "SIGTERM"}
LONGEST_PAUSE_SECONDS = 60.0
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
Start = Callable[[Sequence[str], Mapping[str, str]], subprocess.Popen[bytes]]
Driver = Callable[[subprocess.Popen[bytes]], int | None]


def started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, which signals of a terminal do not reach."""
    return subprocess.Popen(command, env=environment, process_group=0)


def itself(process: subprocess.Popen[bytes]) -> int:
    """Return the process as the one that ends in order."""
    return process.pid


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str],
    restarts: int,
    pause: Callable[[float], None],
    start: Start = started,
    driver: Driver = itself,
) -> int:
    """Run a command, again if its process dies or loses what it needs, and return the last exit code.

    Args:
        command: runs a script and keeps the journal that its environment names, which it does where there are restarts.
        restarts: how often it is started again, at most.
        pause: waits so many seconds.
        start: starts the command.
        driver: returns the process, among those that were started, which ends in order at Ctrl-C; None where there is none yet.
    """
    if not restarts:
        return ended(start(command, environment), driver)
    with TemporaryDirectory(prefix="xpsql-run-") as folder:
        path = Path(folder) / "journal"
        for attempt in range(restarts + 1):
            code = ended(start(command, {**environment, VARIABLE: str(path)}), driver)
            if not died(code):
                return code
            under_way = Journal(path).under_way
            at = "" if under_way is None else f" in the statement at line {under_way.line}, {under_way.text}"
            if attempt == restarts:
                click.echo(f"Error: The process {cause(code)}{at}, and was started again {times(restarts)}.", err=True)
                return code
            seconds = min(2.0**attempt, LONGEST_PAUSE_SECONDS)
            again = f"Starting again in {seconds:g} s, {attempt + 1} of {restarts}."
            click.echo(f"The process {cause(code)}{at}. {again}", err=True)
            pause(seconds)
    raise AssertionError  # the last attempt returns


def ended(process: subprocess.Popen[bytes], driver: Driver = itself) -> int:
    """Return the exit code of a process when it has ended, 128 + n for the signal n.

    Ctrl-C and SIGTERM reach this process alone, and are passed on to the driver, which ends in order; where there is none yet,
    the whole group is terminated. Ctrl-Z stops both, until this process goes on.
    """
    events: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=lambda: events.put(process.wait()), daemon=True).start()
    handled = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores one
    before = {number: signal.signal(number, lambda number, _: events.put(signal.Signals(number))) for number in handled}
    killed_by = None
    try:
        while isinstance(event := events.get(), signal.Signals):
            with contextlib.suppress(ProcessLookupError):  # it ends just now
                if event is signal.SIGTSTP:
                    stop_with(process)
                elif (found := driver(process)) is not None:
                    os.kill(found, signal.SIGTERM if event is signal.SIGHUP else event)
                else:
                    os.killpg(process.pid, signal.SIGTERM)
                    killed_by = event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if killed_by is not None and event != 0:
        click.echo("Interrupted.", err=True)
        return 128 + killed_by
    return event if event >= 0 else 128 - event


def stop_with(process: subprocess.Popen[bytes]) -> None:
    """Stop a process's group and this process, as Ctrl-Z does, and let the group go on when this one does."""
    os.killpg(process.pid, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGCONT)


def died(code: int) -> bool:
    """Return whether a restart may help after an exit code: a signal that is not sent on purpose, or a lost process or
    machine."""
    return code == LOST or (code > 128 and code not in INTENDED)


def cause(code: int) -> str:
    if code == LOST:
        return "lost what it needs"
    try:
        return f"died of {signal.Signals(code - 128).name}"
    except ValueError:
        return f"ended with {code}"


def times(count: int) -> str:
    return f"{count} {plural('time', count)}"

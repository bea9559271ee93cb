"""`--restart n`: a supervisor that restarts a process that died, and lets it continue where it stopped."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..display import plural
from .journal import VARIABLE, Journal

LOST = 75  # EX_TEMPFAIL of sysexits.h
MEANT = {129: "SIGHUP", 130: "SIGINT", 141: "SIGPIPE", 143: "SIGTERM"}
LONGEST_PAUSE_SECONDS = 60.0
GRACE_SECONDS = 3.0
INTERRUPTED = 130
Start = Callable[[Sequence[str], Mapping[str, str]], subprocess.Popen[bytes]]
Heard = Callable[[subprocess.Popen[bytes]], bool]


def started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process."""
    return subprocess.Popen(command, env=environment)


def supervise(
    command: Sequence[str],
    environment: Mapping[str, str],
    restarts: int,
    pause: Callable[[float], None],
    start: Start = started,
    heard: Heard = lambda process: True,
) -> int:
    """Run a command, again if its process dies or loses what it needs, and return the last exit code.

    Args:
        command: runs a script and keeps the journal that its environment names, which it does where there are restarts.
        restarts: how often it is started again, at most.
        pause: waits so many seconds.
        start: starts the command.
        heard: returns whether somebody in the process has heard Ctrl-C; where nobody has, it is terminated.
    """
    if not restarts:
        return ended(start(command, environment), heard)
    with TemporaryDirectory(prefix="xpsql-run-") as folder:
        path = Path(folder) / "journal"
        for attempt in range(restarts + 1):
            code = ended(start(command, {**environment, VARIABLE: str(path)}), heard)
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


def ended(process: subprocess.Popen[bytes], heard: Heard = lambda process: True) -> int:
    """Return the exit code of a process when it has ended, 128 + n for the signal n.

    Ctrl-C reaches it, too, and lets it end in order; SIGTERM, which reaches this process alone, is passed on.
    """
    before = signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    interrupted = False
    try:
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                if not heard(process) and not ends(process):
                    click.echo("Interrupted.", err=True)
                    interrupted = True
                    process.terminate()
                continue
            return INTERRUPTED if interrupted else code if code >= 0 else 128 - code
    finally:
        signal.signal(signal.SIGTERM, before)


def ends(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process ends by itself, as where its driver has just done so."""
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(GRACE_SECONDS)
        return True
    return False


def died(code: int) -> bool:
    """Return whether a restart may help after an exit code: a signal that is not sent on purpose, or a lost process or
    machine."""
    return code == LOST or (code > 128 and code not in MEANT)


def cause(code: int) -> str:
    if code == LOST:
        return "lost what it needs"
    try:
        return f"died of {signal.Signals(code - 128).name}"
    except ValueError:
        return f"ended with {code}"


def times(count: int) -> str:
    return f"{count} {plural('time', count)}"

"""How a training, scoring or evaluation shows its progress: a bar on a terminal or in a notebook, log lines elsewhere, or
nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, TaskID

MAIN = ("logloss", "auc")


class Reporter(Protocol):
    """Receives progress; called from one thread at a time, in the order start, go_on or update ..., finish."""

    def start(self, title: str, total_examples: int | None) -> None:
        """Begin a piece of work, with the number of its examples if known."""
        ...

    def go_on(self, examples: int) -> None:
        """Report that so many examples were done before; they do not count for the speed."""
        ...

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        """Report the examples done, including earlier ones, and running metrics by name (logloss, auc, ...)."""
        ...

    def finish(self, message: str) -> None:
        """End the piece of work, also one that failed; an empty message says nothing."""
        ...

    def note(self, message: str) -> None:
        """Report something worth knowing that is not an error."""
        ...


class SilentReporter:
    """Reports nothing."""

    def start(self, title: str, total_examples: int | None) -> None:
        pass

    def go_on(self, examples: int) -> None:
        pass

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        pass

    def finish(self, message: str) -> None:
        pass

    def note(self, message: str) -> None:
        pass


class PacedReporter:
    """The base of reporters that show something at most once every `interval_seconds`."""

    def __init__(self, interval_seconds: float, clock: Callable[[], float]) -> None:
        self.interval_seconds = interval_seconds
        self.clock = clock
        self.title = ""
        self.total: int | None = None
        self.before = 0
        self.started = self.last = 0.0

    def begin(self, title: str, total_examples: int | None) -> None:
        self.title, self.total = title, total_examples
        self.go_on(0)

    def go_on(self, examples: int) -> None:
        self.before = examples
        self.started = self.last = self.clock()

    def due(self) -> float | None:
        """Return how many seconds have passed, where it is time to show something again; else None."""
        now = self.clock()
        if now - self.last < self.interval_seconds:
            return None
        self.last = now
        return now - self.started


class LogReporter(PacedReporter):
    """Writes plain lines, at most one every `interval_seconds` while work goes on."""

    def __init__(self, stream: TextIO, interval_seconds: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(interval_seconds, clock)
        self.stream = stream

    def start(self, title: str, total_examples: int | None) -> None:
        self.begin(title, total_examples)
        if total_examples is not None:  # else it may be a prediction of one row
            self.note(f"{title}: {total_examples:,} examples")

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if (passed := self.due()) is None:
            return
        of = "" if self.total is None else f" of {self.total:,}"
        rate = (examples - self.before) / passed
        self.note(f"{self.title}: {examples:,}{of} examples, {rate:,.0f}/s{measured(metrics)}")

    def finish(self, message: str) -> None:
        if message:
            self.note(message)

    def note(self, message: str) -> None:
        self.stream.write(message + "\n")
        self.stream.flush()


class BarReporter:
    """Draws a bar on a terminal: examples/s, logloss and AUC, time left; below it what else is measured."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self.console = Console(file=stream)
        self.live: Live | None = None
        self.progress: Progress | None = None
        self.task: TaskID | None = None
        self.before = 0

    def start(self, title: str, total_examples: int | None) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.text import Text

        measures = "{task.description}", BarColumn(), TextColumn("{task.fields[measured]}")
        times = TimeElapsedColumn(), "passed,", TimeRemainingColumn(), "left"
        self.progress = Progress(*measures, *times, console=self.console)
        self.task = self.progress.add_task(title, total=total_examples, measured="")
        self.before = 0
        self.below = Text(style="dim")
        self.live = Live(Group(self.progress, self.below), console=self.console, transient=True)
        self.live.start()

    def go_on(self, examples: int) -> None:
        if self.progress is not None and self.task is not None:
            self.before = examples
            self.progress.reset(self.task, completed=examples)

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if self.progress is None or self.task is None:
            return
        elapsed = self.progress.tasks[0].elapsed
        rate = f"{(examples - self.before) / elapsed:,.0f} examples/s" if elapsed else ""
        main = {name: value for name, value in metrics.items() if name in MAIN}
        self.progress.update(self.task, completed=examples, measured=rate + measured(main))
        self.below.plain = measured({name: value for name, value in metrics.items() if name not in MAIN}).removeprefix(", ")

    def finish(self, message: str) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = self.progress = self.task = None
        if message:
            self.note(message)

    def note(self, message: str) -> None:
        self.console.print(message, markup=False, highlight=False, soft_wrap=True)


class NotebookReporter(PacedReporter):
    """Draws a bar of HTML below a cell of Jupyter, a few times a second; what it ends with takes the bar's place."""

    def __init__(
        self, display: Callable[..., Any], interval_seconds: float = 0.3, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(interval_seconds, clock)
        self.display = display
        self.shown: Any = None

    def start(self, title: str, total_examples: int | None) -> None:
        self.begin(title, total_examples)
        if total_examples is not None:  # else it may be a prediction of one row
            self.shown = self.display(page(title, bar(0, total_examples)), raw=True, display_id=True)

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if (passed := self.due()) is None:
            return
        rate = (examples - self.before) / passed
        left = f", {(self.total - examples) / rate:.0f} s left" if self.total and rate else ""
        text = f"{examples:,} examples, {rate:,.0f}/s{measured(metrics)}; {passed:.0f} s passed{left}"
        drawn = page(f"{self.title}: {text}", bar(examples, self.total))
        if self.shown is None:
            self.shown = self.display(drawn, raw=True, display_id=True)
        else:
            self.shown.update(drawn, raw=True)

    def finish(self, message: str) -> None:
        if self.shown is not None:
            self.shown.update(page(message), raw=True)
            self.shown = None
        elif message:
            self.note(message)

    def note(self, message: str) -> None:
        self.display(page(message), raw=True)


def page(text: str, above: str = "") -> dict[str, str]:
    """Return a text for a notebook, below some HTML."""
    return {"text/plain": text, "text/html": f"<div>{above}{escape(text)}</div>"}


def bar(done: int, total: int | None) -> str:
    """Return a bar of HTML; one without an end in sight where the total is unknown."""
    share = "" if not total else f' value="{min(done / total, 1):.3f}"'
    return f'<progress style="width: 24em"{share}></progress><br>'


def notebook_display() -> Callable[..., Any] | None:
    """Return the function that shows things in the notebook that this process runs, None where it runs none."""
    if (shell := sys.modules.get("IPython")) is None or getattr(shell.get_ipython(), "kernel", None) is None:
        return None
    from IPython.display import display

    return display


def reporter_for(stream: TextIO, quiet: bool) -> Reporter:
    """Return the reporter that suits a process: silent if `quiet`, a bar in notebooks and on terminals, else log lines."""
    if quiet:
        return SilentReporter()
    if (display := notebook_display()) is not None:
        return NotebookReporter(display)
    return BarReporter(stream) if stream.isatty() else LogReporter(stream)


def measured(metrics: Mapping[str, float]) -> str:
    return "".join(
        f", {name} {value:,}" if isinstance(value, int) else f", {name} {value:.4f}" for name, value in metrics.items()
    )

"""USING auto as a statement: what it takes, and the statements that it writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..engines.spark_sql.passage import Passage
from ..errors import StatementError
from ..models.options import literal
from ..options import Value, parse
from ..parts import ALGORITHM
from ..quoting import quoted
from ..training.auto.forms import StatementForm
from ..training.auto.options import AUTO, FEWEST_HELD, SUBJECT, AutoOptions
from ..training.auto.stages import BIN
from ..training.clauses import CLAUSES
from ..training.clauses.budget import BUDGET, Budget
from ..training.clauses.using import Given
from ..training.metrics.alone import BINS
from .clauses import Clauses

if TYPE_CHECKING:
    from ..training.plan import Plan

FOUND_BY_AUTO = "which it finds itself"
REFUSED: Mapping[str, str] = {
    "TUNE": FOUND_BY_AUTO,
    "CROSS": FOUND_BY_AUTO,
    "OPERATORS": "which the statement that auto finds may be given afterwards",
    "APPLY": "which the statement that auto finds may be given afterwards",
    "VECTORS": "which auto does not try",
    "ITEMS": "which auto does not try",
    "EVALUATE": "and auto judges by rows held out: VALIDATE",
    "PUBLISH": "which is for streams",
    "RETAIN": "which is for streams",
}
SETTINGS = ("passes", "patience", "patience_by", "plateau", "cooldown", "held_out", "refit", "until", "once")
"""Options of WITH that auto chooses, or that make no sense of a search."""
ALL_ANEW = "held_out = 'all'"
"""What WITH says where rows are held out at random: the version learns in the log's order, as a statement without VALIDATE."""
PLAIN = re.compile(r"[A-Za-z_]\w*")


class Asks(NamedTuple):
    """What USING auto and BUDGET say."""

    options: AutoOptions
    budget: Budget


def asks_of(given: Clauses) -> Asks | None:
    """Return what a statement asks of auto; None where it names an algorithm.

    Raises:
        StatementError: BUDGET without auto, or the other way round; or what auto does not take.
    """
    using: Given | None = given["USING"].value if "USING" in given else None
    if using is None or using.name.value.lower() != AUTO:
        if BUDGET.name in given:
            message = "BUDGET is for USING auto, which searches as long as that says. Write USING auto, or leave it out."
            raise StatementError(message, given[BUDGET.name].position)
        return None
    for word, why in REFUSED.items():
        if word in given:
            raise StatementError(f"USING auto takes no {word}, {why}. Leave it out.", given[word].position)
    for name in SETTINGS:
        if "WITH" in given and name in given["WITH"].value:
            message = f"USING auto takes no {name}: it chooses what is learned, and how often. Leave it out."
            raise StatementError(message, given["WITH"].value[name].position)
    labels = given["LABEL"].value if "LABEL" in given else None
    if labels is not None and (len(labels.columns) > 1 or labels.late or labels.positive):
        raise StatementError("USING auto learns one label, and not LATE. Name one column.", given["LABEL"].position)
    if BUDGET.name not in given:
        message = "USING auto needs BUDGET, such as BUDGET 10 MINUTES, or BUDGET 20 TRIALS."
        raise StatementError(message, using.name.position)
    options = parse(AutoOptions, using.options, SUBJECT)
    for name in options.algorithms:
        ALGORITHM.find(name, using.options["algorithms"].position if "algorithms" in using.options else None)
    return Asks(options, given[BUDGET.name].value)


def without_auto(given: Clauses) -> Clauses:
    """Return the clauses of the first trial: the defaults of xftrl."""
    using = given["USING"]
    plain = Given(using.value.name._replace(value="xftrl"), {})
    return {**{word: one for word, one in given.items() if word != BUDGET.name}, "USING": using._replace(value=plain)}


@dataclass(frozen=True)
class StatementWriter:
    """Writes what auto tries; see AutoWriter.

    Attributes:
        head: TRAIN MODEL and the name.
        texts: of the clauses that stay as they are, in order, each with its word.
        ignored: what IGNORE names.
        settings: the texts of the options of WITH, by their names: they win over those of a form.
        query: the text of the query.
        planned: plans a statement over rows.
        share: of the rows, which VALIDATE holds out where the statement does not say.
    """

    head: str
    texts: Mapping[str, str]
    ignored: tuple[str, ...]
    settings: Mapping[str, str]
    query: str
    planned: Callable[[str, Passage], Plan]
    share: float = FEWEST_HELD

    @property
    def transforms(self) -> bool:
        return "TRANSFORM" in self.texts

    def timed(self, column: str) -> Self:
        texts = {**self.texts, "TIME": f"TIME {name_text(column)}"}
        return replace(self, texts=texts)

    def holding(self, share: float) -> Self:
        return replace(self, share=share)

    def ordered(self, by: str) -> Self:
        return replace(self, query=f"SELECT * FROM ({self.query}\n) ORDER BY {by}")

    def write(self, form: StatementForm) -> str:
        arrays, targets = ([name_text(pair[place]) for pair in form.history] for place in (0, 1))
        options = [f"target = {parenthesised(targets)}", f"history = {parenthesised(arrays)}"] if form.history else []
        options += [f"{name} = {value_text(value)}" for name, value in form.options]
        shared = [f"{array} AS {target}" for array, target in zip(arrays, targets, strict=True)]
        shares = [f"share = {parenthesised(shared)}"] if shared and "share" not in self.settings else []
        chosen = [f"{name} = {value_text(value)}" for name, value in form.settings if name not in self.settings]
        anew = [] if {"TIME", "VALIDATE"} & {*self.texts} else [ALL_ANEW]
        using = f"USING {form.algorithm} {parenthesised(options)}".rstrip()
        lines = [self.head, f"  {using}"]
        ignored = [*map(name_text, self.ignored), *map(name_text, form.ignore)]
        own = {
            "IGNORE": parenthesised(ignored, "IGNORE"),
            "CROSS": parenthesised([" * ".join(map(name_text, names)) for names in form.cross], "CROSS"),
            "TRANSFORM": parenthesised([*map(binned, form.binned), "*"], "TRANSFORM") if form.binned else "",
            "OPERATORS": parenthesised([*(["auto_session"] if form.rates else []), *form.operators], "OPERATORS"),
            "VALIDATE": f"VALIDATE ON {'LAST ' if 'TIME' in self.texts else ''}{self.share:g}",
            "WITH": parenthesised([*self.settings.values(), *anew, *shares, *chosen], "WITH"),
        }
        clauses = {**own, **self.texts}
        lines += [f"  {clauses[word]}" for word in CLAUSES.names if clauses.get(word)]
        return "\n".join([*lines, f"AS {self.query}"])

    def plan(self, form: StatementForm, query: str) -> Plan:
        return self.planned(self.write(form), Passage.of(query))


def writer_of(
    model: str, or_replace: bool, given: Clauses, query: str, planned: Callable[[str, Passage], Plan]
) -> StatementWriter:
    """Return the writer of a statement's forms.

    Args:
        given: the clauses of the first trial.
    """
    own = ("USING", "IGNORE", "WITH")
    texts = {word: one.position.text for word, one in given.items() if word not in own and one.position is not None}
    ignored = tuple(given["IGNORE"].value) if "IGNORE" in given else ()
    settings: Mapping[str, Value] = given["WITH"].value if "WITH" in given else {}
    said = {name: value.position.text for name, value in settings.items() if value.position is not None}
    head = f"TRAIN {'OR REPLACE ' if or_replace else ''}MODEL {name_text(model)}"
    return StatementWriter(head, texts, ignored, said, query, planned)


def parenthesised(items: list[str], word: str = "") -> str:
    """Return a list in parentheses, after a word where there is one; nothing where it is empty."""
    return f"{word} ({', '.join(items)})".lstrip() if items else ""


def binned(name: str) -> str:
    """Return the column of TRANSFORM that has a number's bin as a category."""
    bounds = f"QUANTILES({quoted(name)}, {BINS})"
    return f"bucketize({quoted(name)}, {bounds}) AS {name_text(name + BIN)}"


def name_text(name: str) -> str:
    """Return a name as a statement has it, in backticks where it needs them."""
    return name if PLAIN.fullmatch(name) else quoted(name)


def value_text(value: Any) -> str:
    """Return a value as a statement has it."""
    return literal(value)

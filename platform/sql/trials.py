"""The options that a statement gives: those that TUNE tries, checked and drawn, and those without effect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from .. import parts
from ..dependent import check_effects
from ..engines.spark_sql.hparams import HparamCandidates, HparamRange
from ..errors import OptionError, StatementError, Subject
from ..input.positives import MISSING
from ..models.options import literal
from ..options import Value, describe
from ..training.clauses.settings import Settings
from ..training.clauses.tune import BAYES
from ..training.clauses.using import Given
from ..training.plan import Use
from ..training.tuning.bayes import Search, require_optuna
from ..training.tuning.space import Candidate, Dimension, chosen
from . import clauses
from .clauses import Clauses

WORDS = "HPARAM_RANGE or HPARAM_CANDIDATES"


def tried(given: Given) -> dict[str, Value]:
    """Return the options of a part that have no value, but are tried."""
    return hparams(given.options)


def hparams(options: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options that have a range or candidates for a value."""
    return {name: value for name, value in options.items() if isinstance(value.value, HparamRange | HparamCandidates)}


def first(given: Given) -> Given:
    """Return a part with the first value of each tried option, to check all other options."""
    values = {name: value._replace(value=first_value(value.value)) for name, value in tried(given).items()}
    return given._replace(options={**given.options, **values})


def first_value(hparam: Any) -> Any:
    return hparam.low if isinstance(hparam, HparamRange) else hparam.values[0]


def check_tuned(given: Clauses, continues: bool) -> None:
    """Refuse tried options without TUNE, or of anything but an algorithm, and TUNE where it is not possible.

    Raises:
        StatementError: says what to do.
    """
    if continues and "TUNE" in given:
        message = "CONTINUE keeps the options of its version. Leave TUNE out, or TRAIN a new model."
        raise StatementError(message, given["TUNE"].position)
    using = tried(given["USING"].value) if "USING" in given else {}
    for part in given["OPERATORS"].value if "OPERATORS" in given else ():
        if options := tried(part):
            message = f"{WORDS} is for options of USING; the optimizer of the algorithm has its options there."
            raise StatementError(message, next(iter(options.values())).position)
    settings: dict[str, Value] = given["WITH"].value if "WITH" in given else {}
    if options := hparams(settings):
        message = f"{WORDS} is for options of USING, and WITH has one value of each."
        raise StatementError(message, next(iter(options.values())).position)
    if using and "TUNE" not in given:
        message = f"{WORDS} needs a clause that says how it is tried, such as TUNE BY auc TRIALS 16."
        raise StatementError(message, next(iter(using.values())).position)
    if "TUNE" in given and not using:
        message = f"TUNE needs an option that is tried: write {WORDS} for its value, like alpha = HPARAM_RANGE(0.01, 1)."
        raise StatementError(message, given["TUNE"].position)


def check_given(given: Clauses, algorithms: Sequence[Use], settings: Settings, items: str | None) -> None:
    """Refuse options of USING, OPERATORS and WITH without effect beside the others; what a version hands on is not given.

    Args:
        algorithms: what is tried; without TUNE one.
        settings: of WITH and, where they are handed on, the version's.
        items: the query of ITEMS, the version's where it is handed on.

    Raises:
        OptionError: see check_effects.
    """
    if "USING" in given:
        owner = Subject("USING", algorithms[0].name)
        check_effects([algorithm.options for algorithm in algorithms], given["USING"].value.options, owner)
    for part in given["OPERATORS"].value if "OPERATORS" in given else ():
        used = clauses.use(parts.OPERATOR, part)
        check_effects([used.options], part.options, Subject("OPERATORS", used.name))
    said = given["WITH"].value if "WITH" in given else {}
    check_effects([settings], said, Subject("WITH"))
    if items is None and (missing := said.get(MISSING.option)) is not None:
        message = f"{MISSING} has no effect without ITEMS. Add that clause, or leave {MISSING.option} out."
        raise OptionError(message, missing.position, MISSING)


def candidates(statement: str, given: Clauses, seed: int) -> tuple[list[Candidate], Search | None]:
    """Return what is tried, each checked, and what gives further candidates after some of these.

    Raises:
        StatementError: an option takes no such values; see `chosen`.
    """
    using, tune = given["USING"].value, given["TUNE"]
    options = tried(using)
    part = parts.ALGORITHM.find(using.name.value, using.name.position)
    hints = get_type_hints(part.options)
    known = {field.name for field in fields(part.options)}
    space = {}
    for name, value in options.items():
        ends = (value.value.low, value.value.high) if isinstance(value.value, HparamRange) else value.value.values
        for end in ends:  # values between them are valid, too
            clauses.algorithm(first(using)._replace(options={**first(using).options, name: value._replace(value=end)}))
        whole = name in known and hints[name] is int
        space[name] = Dimension(value.value, whole)

    def made(point: dict[str, Any]) -> Candidate:
        values = {name: options[name]._replace(value=value) for name, value in point.items()}
        algorithm = clauses.algorithm(using._replace(options={**using.options, **values}))
        return Candidate(point, algorithm, alone(statement, given, point), default=False, left_out=())

    search = None
    if tune.value.method == BAYES:
        require_optuna()
        search = Search(tune.value, space, made, seed)
    found = [made(point) for point in chosen(tune.value, space, seed)]
    usual = by_default(statement, given)
    return ([] if usual is None else [usual]) + found, search


def by_default(statement: str, given: Clauses) -> Candidate | None:
    """Return the candidate that leaves out what is tried; None where the algorithm cannot do without."""
    using = given["USING"].value
    left = {name: value for name, value in using.options.items() if name not in tried(using)}
    known = {described.name for described in describe(parts.ALGORITHM.find(using.name.value, using.name.position).options)}
    try:
        algorithm = clauses.algorithm(using._replace(options=left))
    except StatementError:
        return None
    unknown = tuple(name for name in tried(using) if name not in known)
    return Candidate({}, algorithm, alone(statement, given, None), default=True, left_out=unknown)


def alone(statement: str, given: Clauses, point: dict[str, Any] | None) -> str:
    """Return the statement that trains one candidate: with its options' values, or without them, and without TUNE."""
    text, tune = statement, given["TUNE"].position
    for name, value in tried(given["USING"].value).items():
        if value.position is not None and point is not None:
            text = text.replace(value.position.text, f"{name} = {literal(point[name])}", 1)
        elif value.position is not None:
            own = re.escape(value.position.text)
            text = re.sub(rf"\s*\(\s*{own}\s*\)|\s*,\s*{own}|{own}\s*,\s*", "", text, count=1)
    return text.replace(f"{tune.text} ", "", 1).replace(tune.text, "", 1) if tune is not None else text

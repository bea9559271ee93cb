"""Options that matter beside others alone: every declaration, refused without them and taken with them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import xpsql
from tests.cases import costly
from xpsql.algorithms import ALGORITHMS
from xpsql.platform.dependent import Fact, When
from xpsql.platform.engines.base import Statements
from xpsql.platform.errors import OptionError
from xpsql.platform.operators import OPERATORS
from xpsql.platform.options import describe
from xpsql.platform.sql.script import parse_script
from xpsql.platform.training.clauses.settings import Settings

TRAIN = "TRAIN MODEL m USING xftrl{} AS SELECT * FROM log"
CLAUSES = {"algorithm": "TRAIN MODEL m USING {}{} AS SELECT 1", "operator": TRAIN.format(" OPERATORS ({}{})")}
NETWORK = """
def init(random, features):
    return {}

def apply(parameters, features):
    return features.dense
"""
PAIR = ("image", "images")
USUAL = {"half_life": "7 days", "min_count": 3, "utility": 0.5, "target": "2 hours", "patience": 2}
"""Values of options that have no default."""


class Dependence(NamedTuple):
    """An option that needs others, the part that has it, and the statement that uses the part."""

    part: str
    statement: str
    options: type[Any]
    name: str
    needs: tuple[When, ...]

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


def declared() -> Iterator[Dependence]:
    parts = [("algorithm", part) for part in map(ALGORITHMS.find, ALGORITHMS.names)]
    parts += [("operator", part) for part in map(OPERATORS.find, OPERATORS.names)]
    found = [(part.name, CLAUSES[kind].format(part.name, "{}"), part.options) for kind, part in parts if part is not None]
    for part, statement, options in [*found, ("WITH", TRAIN.format(" WITH {}"), Settings)]:
        for field in dataclasses.fields(options):
            if needs := field.metadata["limits"].needs:
                yield Dependence(part, statement, options, field.name, needs)


ALL = list(declared())


def text_of(value: Any) -> str:
    if value == PAIR:
        return "(image IN images)"
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def parsed(given: Dependence, values: Mapping[str, Any], tmp_path: Path) -> None:
    """Parse a statement with an option of usual value, and others."""
    network = tmp_path / "network.py"
    network.write_text(NETWORK)
    fields = {field.name: field for field in dataclasses.fields(given.options)}
    values = {**values, given.name: first_of(fields[given.name])}
    if given.part == "network":
        values["file"] = str(network)
    signs = {field.name: field.metadata["limits"].relation for field in fields.values()}
    written = ", ".join(f"{name} {signs[name]} {text_of(value)}" for name, value in values.items())
    parse_script(given.statement.format(f" ({written})"), {}, None, Statements(("SELECT",), others=True))


def first_of(field: dataclasses.Field[Any]) -> Any:
    """Return a value that an option takes: its default, where that is one."""
    usual = {
        "context": 8,
        "within": "7 days",
        "checkpoint_path": "/tmp/checkpoints",
        "price": 0.04,
        "patience_by": "auc",
        "plateau": 0.1,
    }
    return usual.get(field.name, field.default)


def without(options: type[Any], need: When) -> dict[str, Any]:
    """Return what a statement gives so that a need is not there; nothing where that is so by default."""
    field = next(field for field in dataclasses.fields(options) if field.name == need.option)
    if need.values:
        return {need.option: next(choice for choice in field.metadata["limits"].choices if choice not in need.values)}
    if field.default is None or not need.met(options()):
        return {}
    return {need.option: type(field.default)()}


def beside(options: type[Any], need: When) -> list[dict[str, Any]]:
    """Return all ways in which a statement gives what is needed."""
    if need.values:
        return [{need.option: value} for value in need.values]
    default = next(field.default for field in dataclasses.fields(options) if field.name == need.option)
    if default is None:
        return [{need.option: USUAL[need.option]}]
    if need.option == "vectors":
        return [{need.option: PAIR}]
    numbers = need.option in ("hidden", "booster")
    usual = {tuple: (8, 4) if numbers else ("a", "b"), bool: True, int: 3, float: 0.5}
    return [{need.option: usual[type(default)]}]


@pytest.mark.parametrize("given", ALL, ids=str)
def test_an_option_without_what_it_needs_is_refused_with_its_place_and_the_remedy(given: Dependence, tmp_path: Path) -> None:
    absent = {name: value for need in given.needs for name, value in without(given.options, need).items()}
    with pytest.raises(OptionError, match=rf"\b{given.name}\b.* has no effect without") as raised:
        parsed(given, absent, tmp_path)
    assert raised.value.position is not None
    assert raised.value.position.text.startswith(given.name)
    assert all(str(need) in raised.value.told for need in given.needs)


@pytest.mark.parametrize("given", ALL, ids=str)
def test_an_option_beside_any_of_what_it_needs_is_taken(given: Dependence, tmp_path: Path) -> None:
    for need in given.needs:
        others = {name: value for other in given.needs for name, value in without(given.options, other).items()}
        for values in beside(given.options, need):
            parsed(given, {**others, **values}, tmp_path)


def test_what_an_option_needs_is_an_option_of_the_same_part_and_told_beside_its_help() -> None:
    assert len(ALL) > 80
    for given in ALL:
        described = {option.name: option.help for option in describe(given.options)}
        for need in given.needs:
            assert need.option in {name.partition(" ")[0] for name in described}
            assert str(need) in described[given.name].partition("; needs ")[2]


def test_what_is_said_of_items_is_refused_without_their_clause() -> None:
    with pytest.raises(OptionError, match=r"missing_items has no effect without ITEMS.*line 1, column 33"):
        parse_script(TRAIN.format(" WITH (missing_items = 'error')"), {}, None, Statements(("SELECT",), others=True))


@costly
def test_options_without_effect_that_a_version_hands_on_are_kept_and_those_of_the_statement_refused(
    session: xpsql.Session,
) -> None:
    session.sql("CREATE TABLE log AS SELECT id % 3 = 0 AS label, concat('u', id % 9) AS user FROM range(300)")
    query = "AS SELECT CAST(label AS INT) AS label, user FROM log"
    tried = "long_dim = HPARAM_CANDIDATES(0, 4), alpha = HPARAM_CANDIDATES(1.0, 0.9)"  # better than the default
    options = f"{tried}, long_information = 1000000, hidden = (4)"
    session.sql(f"TRAIN MODEL m USING deepfm ({options}) TUNE BY logloss TRIALS 4 METHOD grid {query}")
    assert session.models.version("m").manifest.algorithm.options["long_dim"] == 0
    for continued in (f"CONTINUE MODEL m {query}", f"CONTINUE MODEL m USING deepfm (learning_rate = 0.002) {query}"):
        session.sql(f"EXPLAIN {continued}")
        session.sql(continued)
    for clauses in ("USING deepfm (long_information = 3)", "OPERATORS (staleness_discount (limit = 3))", "WITH (slack = 2)"):
        for explain in ("", "EXPLAIN "):
            with pytest.raises(OptionError, match=r"has no effect without .*line 1, column"):
                session.sql(f"{explain}CONTINUE MODEL m {clauses} {query}")


FACTS = {
    "batches": ("owlqn", "xgboost"),
    "rounds": ("owlqn", "xgboost"),
    "counted": ("owlqn", "xgboost"),
    "common": ("owlqn", "xgboost", "xsvd"),
    "arrays": ("xftrl", "logistic_regression", "linear_regression", "svm", "owlqn", "fm", "ffm", "xnn"),
    "numbers": ("xnn", "xgboost"),
    "categories": ("xgboost",),
    "drifts": ("xftrl",),
}
"""By each fact, algorithms that take an option which needs it: of them it is not so on the rows of the test below."""


def needing(options: type[Any]) -> Iterator[tuple[dataclasses.Field[Any], Fact]]:
    for field in dataclasses.fields(options):
        if field.name != "plateau":  # which needs rows held out, and what they refuse comes first
            yield from ((field, fact) for fact in field.metadata["limits"].facts)


def another(field: dataclasses.Field[Any]) -> str:
    """Return a value that is not the default, as a statement gives it."""
    limits = field.metadata["limits"]
    if limits.choices:
        return repr(next(choice for choice in limits.choices if choice != field.default))
    return {"checkpoint_path": "'/tmp/checkpoints'", "cooldown": "0.1"}.get(field.name, "2")


def test_an_option_that_does_nothing_for_the_algorithm_or_its_slots_is_refused_with_its_place(session: xpsql.Session) -> None:
    session.sql(
        "CREATE TABLE plain AS SELECT CAST(id % 2 AS INT) AS label, concat('u', id % 9) AS user, concat('i', id % 5) AS item, "
        "id / 3.0 AS price FROM range(300)"
    )
    tried = set()
    for fact, algorithms in FACTS.items():
        for name in algorithms:
            part = ALGORITHMS.find(name)
            assert part is not None
            columns = {"numbers": "label, user, item", "categories": "label, price"}.get(fact, "label, user, item")
            owned = [(f"USING {name} ({{}})", part.options), (f"USING {name} WITH ({{}})", Settings)]
            for clause, options in owned:
                for field, need in needing(options):
                    if need.name != fact:
                        continue
                    tried.add((fact, field.name))
                    statement = (
                        f"TRAIN MODEL m {clause.format(f'{field.name} = {another(field)}')} AS SELECT {columns} FROM plain"
                    )
                    for explain in ("EXPLAIN ", ""):
                        with pytest.raises(
                            OptionError, match=rf"{field.name}\b.* has no effect without .*line 1, col"
                        ) as raised:
                            session.sql(explain + statement)
                        assert str(need) in raised.value.told
    every = {
        (need.name, field.name)
        for part in map(ALGORITHMS.find, ALGORITHMS.names)
        if part
        for field, need in needing(part.options)
    }
    assert tried == every | {(need.name, field.name) for field, need in needing(Settings)}


def test_an_option_that_an_earlier_xpsql_took_without_effect_is_handed_on(session: xpsql.Session) -> None:
    query = "AS SELECT CAST(id % 2 AS INT) AS label, concat('u', id % 9) AS user FROM range(300)"
    session.sql(f"TRAIN MODEL old USING owlqn {query}")
    path = session.models.version("old").folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["settings"]["shards"] = 2
    manifest["algorithm"]["options"]["pooling"] = "mean"
    path.write_text(json.dumps(manifest))
    session.sql(f"CONTINUE MODEL old {query}")
    for clause in ("WITH (shards = 3)", "USING owlqn (pooling = 'sum')"):
        with pytest.raises(OptionError, match="has no effect without"):
            session.sql(f"CONTINUE MODEL old {clause} {query}")

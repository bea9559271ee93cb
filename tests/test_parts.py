from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import xpsql
from tests.cases import lengthy
from tests.plain import plain_session
from xpsql.algorithms import ALGORITHMS
from xpsql.algorithms.base import Algorithm, Layout, Online, Supervised
from xpsql.algorithms.linear.xftrl import XftrlOptions, xftrl
from xpsql.algorithms.losses import LOGLOSS
from xpsql.platform import parts
from xpsql.platform.errors import Position, StatementError
from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.base import Operator, TableSpec
from xpsql.platform.options import Part, option
from xpsql.platform.progress import SilentReporter
from xpsql.platform.registry import Registry

HERE = Position(1, 2, "here")
NONE = Registry[Part[Any, Any]]("", {})


@dataclass(frozen=True)
class HalveOptions:
    times: int = option(1, "how often", minimum=1)
    mode: str = option("fast", "how", choices=("fast", "exact"))
    limit: tuple = option((), "slots")  # type: ignore[type-arg]
    lambda_: float = option(0.5, "a keyword of Python", minimum=0)
    cap: float | None = option(None, "ceiling", minimum=0, open_minimum=True)


def make_halve(options: HalveOptions) -> None:
    """Halve every gradient.

    Not shown by SHOW.
    """


HALVE = Part("halve", HalveOptions, make_halve)
NOT_A_PART = "text"


@dataclass(frozen=True)
class BadOptions:
    """Options of bad."""

    way: str = option("shape", "what goes wrong", choices=("shape", "column", "factory", "trace", "none"))


def bad(options: BadOptions, table: TableSpec) -> Operator:
    """Go wrong."""
    if options.way == "factory":
        raise KeyError("factory")

    def before(gradients: Any, rows: Any, context: Any) -> Any:
        if options.way == "trace":
            return gradients @ gradients, rows
        if options.way == "column":
            return gradients, {name: values for name, values in rows.items() if name != "w"}
        return gradients[:, :1] if options.way == "shape" else None, rows

    return Operator({}, before, name="bad")


BAD = Part("bad", BadOptions, bad)


def unscored(options: XftrlOptions, layout: Layout) -> Algorithm:
    """Score by a table that is not there."""
    return dataclasses.replace(xftrl(options, layout), learns=Online(Supervised(lambda rows, inputs: rows["x"], LOGLOSS)))


UNSCORED = Part("unscored", XftrlOptions, unscored)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "bad": f"{__name__}:BAD",
        "halve": f"{__name__}:HALVE",
        "broken": "no_such_module:X",
        "wrong": f"{__name__}:NOT_A_PART",
    }

    def entry_points(group: str) -> list[EntryPoint]:
        if group == "xpsql.algorithms":
            return [EntryPoint("unscored", f"{__name__}:UNSCORED", group)]
        return [EntryPoint(name, value, group) for name, value in points.items()] if group == "xpsql.operators" else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)


@pytest.mark.usefixtures("plugins")
def test_a_plugin_is_found_like_a_part_of_ours() -> None:
    assert parts.OPERATOR.find("Halve", HERE) is HALVE


@pytest.mark.usefixtures("plugins")
def test_a_part_of_ours_comes_before_a_plugin_of_its_name() -> None:
    ours = Part("halve", HalveOptions, make_halve)
    assert parts.PartKind("operator", lambda: NONE.adding(ours)).find("halve", HERE) is ours


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken", "operator broken of package no_such_module cannot be imported: ModuleNotFoundError"),
        ("wrong", "operator wrong of package tests.test_parts must be a Part of that name, got 'text'"),
        ("halv", "There is no operator 'halv'. Did you mean halve\\? Valid: bad, broken, halve, wrong."),
    ],
)
def test_a_part_that_cannot_be_had_is_an_error_that_names_it(name: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as raised:
        parts.PartKind("operator", lambda: NONE).find(name, HERE)
    assert raised.value.position == HERE


@lengthy
@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("using", "message"),
    [
        (
            "fm (dim = 2) OPERATORS (bad)",
            r"Operator bad must return gradients of the shape .*, \(64, 2\); its before returns shape",
        ),
        ("xftrl OPERATORS (bad (way = 'column'))", r"Operator bad must return w of the shape .* its before returns none"),
        ("xftrl OPERATORS (bad (way = 'none'))", r"Operator bad must return gradients .* returns none"),
        ("xftrl OPERATORS (bad (way = 'factory'))", r"Operator bad fails at .*test_parts\.py, line \d+: KeyError: 'factory'"),
        ("xftrl OPERATORS (bad (way = 'trace'))", r"Operator bad fails at .*test_parts\.py, line \d+: TypeError"),
        ("unscored", r"Algorithm unscored fails at .*test_parts\.py, line \d+: KeyError: 'x'"),
    ],
)
def test_what_a_plugin_does_wrong_is_reported_with_its_name_and_file(tmp_path: Path, using: str, message: str) -> None:
    with xpsql.connect(tmp_path, "duckdb", SilentReporter()) as session, pytest.raises(StatementError, match=message):
        session.sql(f"TRAIN MODEL m USING {using} AS SELECT id % 2 AS label, id % 7 AS x FROM range(100)")


@pytest.mark.usefixtures("plugins")
def test_show_operators_lists_plugins_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        rows = session.sql("SHOW OPERATORS").arrow().to_pylist()
    assert {"operator": "halve", "help": "Halve every gradient.", "package": "tests.test_parts"} in rows
    assert any(row["operator"] == "broken" and "cannot be imported" in row["help"] for row in rows)
    assert any(row["operator"] == "ftrl" and row["package"] == "xpsql" for row in rows)


@pytest.mark.usefixtures("plugins")
def test_describe_lists_options_as_they_are_written(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        rows = session.sql("DESCRIBE OPERATOR halve").arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("times", "int", "1", "[1, inf)", "how often"),
        ("mode", "string", "'fast'", "fast | exact", "how"),
        ("limit", "list", "()", "", "slots"),
        ("lambda", "float", "0.5", "[0, inf)", "a keyword of Python"),
        ("cap", "float or none", "null", "(0, inf)", "ceiling"),
    ]


@pytest.mark.parametrize("part", [*ALGORITHMS, *OPERATORS], ids=lambda part: part.name)
def test_whole_numbers_that_options_take_fit_into_compiled_programs(part: Part[Any, Any]) -> None:
    maxima = [f.metadata["limits"].maximum for f in dataclasses.fields(part.options) if str(f.type).startswith("int")]
    assert all(maximum is not None and maximum < 2**31 for maximum in maxima)


def test_every_algorithm_and_operator_of_ours_is_described(tmp_path: Path) -> None:
    with plain_session(tmp_path) as session:
        for kind in ("algorithm", "operator"):
            for row in session.sql(f"SHOW {kind}S").arrow().to_pylist():
                assert row["help"], f"{row[kind]} has no summary"
                described = session.sql(f"DESCRIBE {kind} {row[kind]}").arrow()
                assert all(described["help"].to_pylist()), f"{row[kind]} has an option without help"
        settings = session.sql("DESCRIBE TRAIN MODEL").arrow()["option"].to_pylist()
    assert settings[0] == "batch_size"

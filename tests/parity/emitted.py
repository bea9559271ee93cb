"""What the embedded engine emits that DuckDB reads by rules of its own: casts, parsers of texts, readers and their options.

Each place in the code that writes one is an entry; tests/parity/emitted.json names for each the case that a live Spark holds it
to. Run from the root of the checkout after a change: python -m tests.parity.emitted. It fails where no case reaches an entry:
write a line of expressions.sql, or a case of files, and let Spark answer it first.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tests.parity.cases import CASES
from tests.parity.files import read, write
from tests.parity.table import HERE, expressions, query, sample
from xpsql.platform.engines.duckdb.connection import connect
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.duckdb.translation.macros import MACROS, called
from xpsql.platform.engines.duckdb.translation.transpile import translate
from xpsql.platform.engines.spark_sql.dialect import parse

ROOT = HERE.parents[1]
LIST = HERE / "emitted.json"
FOLDER = "platform/engines/duckdb"
MADE_BY_NAME = re.compile(
    r"\b((?:try_)?strptime|strftime|read_\w+|from_json|json_transform\w*|json_extract\w*|json_type|json_keys|json_array_length"
    r"|from_base64|make_timestamp\w*|make_date|printf|format)(?=\()"
)
CASTS = re.compile(r"\b((?:TRY_)?CAST)\(")
TARGET = re.compile(r"\bAS ([A-Z]+(?: WITH TIME ZONE)?|\{\})")
OPTION = re.compile(r"\b([a-z_]+) = (?=\{\}|'|true|false|-?[0-9]|\{\{)")
UNSEEN = {
    "connection.py": "sets how DuckDB runs, not what it reads",
    "results.py found_schema": "a NULL of a type is cast: it tells types alone",
    "definitions.py": "a NULL of a type is cast: an empty table's columns",
    "inserts.py fitted": "makes a column its table's type: tests/engines/test_tables.py does so on both engines",
    "directories.py": "writes files: tests/engines/test_tables.py reads them on Spark",
    "pieces.py _made": "reads files that a table's own rows are in: tests/engines/test_removals.py does so on both engines",
    "projection.py": "casts a piece of a file to the type that the file has",
}
"""Places whose casts no query of a user's shows, and why."""
SAME_TYPES = {
    "INTEGER": ("INTEGER", "INT"),
    "VARCHAR": ("VARCHAR", "TEXT"),
    "HUGEINT": ("HUGEINT", "INT128"),
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"),
}
ASKED = ("files/csv_types.py kind_of", "files/json.py json_sql")
"""Places of queries that find types, which run on their own."""


class Emission(NamedTuple):
    """A place that emits something.

    Attributes:
        place: the file below FOLDER, and the function, macro or `<module>`.
        what: `CAST AS DATE`, `strptime`, `read_csv`, or `option header`.
        number: which of those of one place it is, from 1 on.
    """

    place: str
    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.place}: {self.what}{f' ({self.number})' if self.number > 1 else ''}"


def emissions() -> list[Emission]:
    """Return every place that emits something, in order."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / FOLDER).rglob("*.py")):
        for where, what in of_code(ast.parse(path.read_text(encoding="utf-8"))):
            found.append((f"{path.relative_to(ROOT / FOLDER).as_posix()} {where}", what))
    for name, text in MACROS.items():
        found += [(f"macros.sql {name}", what) for what in in_text(text.partition(") AS")[2], False)]
    count, made = Counter[tuple[str, str]](), list[Emission]()
    for place, what in found:
        if not place.startswith(tuple(UNSEEN)):
            count[place, what] += 1
            made.append(Emission(place, what, count[place, what]))
    return made


def of_code(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the function and what it emits."""
    stack: list[tuple[ast.AST, str]] = [(tree, "<module>")]
    while stack:
        node, where = stack.pop()
        if isinstance(node, ast.FunctionDef):
            where = node.name
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield from ((where, what) for what in in_text(text, True))
            stack += [(part, where) for part in node.values if isinstance(part, ast.FormattedValue)]
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((where, what) for what in in_text(node.value, True))
        if isinstance(node, ast.Call):
            yield from ((where, what) for what in in_call(node))
        if isinstance(node, ast.Dict) and where == "duckdb_rows":
            yield from ((where, f"option {key.value}") for key in node.keys if isinstance(key, ast.Constant))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        stack += [(child, where) for child in reversed(list(ast.iter_child_nodes(node)))]


def in_text(text: str, options: bool) -> Iterator[str]:
    """Yield what a text of SQL emits."""
    for found in CASTS.finditer(text):
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        targets = TARGET.findall(text[found.end() : end])
        yield f"{found[1]} AS {targets[-1] if targets else '{}'}"
    if "(" in text:
        yield from MADE_BY_NAME.findall(text)
    if options and not CASTS.search(text) and " FROM " not in text:
        yield from (f"option {name}" for name in OPTION.findall(text))


def in_call(node: ast.Call) -> Iterator[str]:
    """Yield what a call of a maker of nodes emits."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "cast" and len(node.args) == 2:
        target = node.args[1]
        yield f"CAST AS {target.value if isinstance(target, ast.Constant) else '{}'}"
    if name == "TryCast":
        yield "TRY_CAST AS {}"
    if name in ("call", "renamed") and node.args and isinstance(node.args[0], ast.Constant):
        yield from MADE_BY_NAME.findall(f"{node.args[0].value}(")


class Reached(NamedTuple):
    """What a case reaches: functions by place, the SQL that is emitted, and the macros that it calls."""

    places: frozenset[str]
    sql: str
    macros: frozenset[str]

    def has(self, emission: Emission) -> bool:
        """Return whether an entry is emitted for the case."""
        file, where = emission.place.split(" ")
        if file == "macros.sql":
            return where in self.macros
        if where != "<module>" and emission.place not in self.places:
            return False
        if emission.place in ASKED:
            return True
        return re.search(pattern_of(emission.what), self.sql) is not None


def pattern_of(what: str) -> str:
    """Return what emitted SQL has where something was emitted."""
    kind, _, target = what.partition(" AS ")
    if target:
        names = "|".join(re.escape(name).replace(",", ", ?") for name in SAME_TYPES.get(target, (target,)))
        return rf"(?i)\b{kind}\(" if target == "{}" else rf"(?i)\bAS (?:{names})(?!\w)"
    return rf"\b{what.removeprefix('option ')} = " if what.startswith("option ") else rf"(?i)\b{what}\("


def watched(run: Callable[[], str]) -> Reached:
    """Return what is reached while SQL is made."""
    places: set[str] = set()
    base = f"{ROOT / FOLDER}/"

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith((base, f"{ROOT}/xpsql/{FOLDER}/")):
            file = code.co_filename.partition(f"{FOLDER}/")[2]
            places.update(f"{file} {name}" for name in code.co_qualname.split(".") if name != "<locals>")

    sys.setprofile(note)
    try:
        sql = run()
    finally:
        sys.setprofile(None)
    return Reached(frozenset(places), sql, frozenset(called(sql)))


class Runs:
    """Translates cases: lines of expressions.sql, and `file: name` of files."""

    def __init__(self, folder: Path) -> None:
        self._connection = connect(1)
        self._connection.execute(f"CREATE TABLE sample AS {translate(parse(sample()), self._connection)}")
        self._engine, self._folder = DuckDBEngine(folder / "warehouse"), folder

    def reached(self, case: str) -> Reached:
        """Return what a case reaches."""
        if not case.startswith("file: "):
            return watched(lambda: translate(parse(query(case)), self._connection))
        given = CASES[case.removeprefix("file: ")]
        place = self._folder / f"f{abs(hash(case))}"
        write(given, place)

        def run() -> str:
            read(given, place, self._engine.execute)
            source = self._engine._relations.temporary["v"]
            return source.sql if hasattr(source, "sql") else ""

        return watched(run)

    def close(self) -> None:
        """Release the databases."""
        self._connection.close()
        self._engine.close()


def answered() -> list[str]:
    """Return the cases that Spark answers with rows."""
    table = json.loads((HERE / "parity.json").read_text(encoding="utf-8"))["rows"]
    rows = {row["expression"] for row in table if "error" not in row}
    files = json.loads((HERE / "files.json").read_text(encoding="utf-8"))
    return [line for line in expressions() if line in rows] + [f"file: {name}" for name in files if "error" not in files[name]]


def main() -> None:
    left, chosen = set(emissions()), dict[Emission, str]()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        reached = {case: runs.reached(case) for case in answered()}
        runs.close()
    shows = {case: {one for one in left if found.has(one)} for case, found in reached.items()}
    while left and (best := max(shows, key=lambda case: len(shows[case] & left))) and shows[best] & left:
        chosen |= dict.fromkeys(shows[best] & left, best)
        left -= shows[best]
    if left:
        sys.exit("No case reaches:\n" + "\n".join(sorted(map(str, left))))
    lines = [f"{json.dumps(str(one))}: {json.dumps(chosen[one], ensure_ascii=False)}" for one in emissions()]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

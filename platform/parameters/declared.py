"""The tables of a service as a user declares them, and what shards are made of: slots, chains of operators, programs."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...algorithms.layers.initial import uniform
from .. import parts
from ..engines.spark_sql.cursor import Cursor
from ..errors import OptionError, StatementError, Subject, suggestion
from ..operators.base import TableSpec
from ..operators.chains import chain
from ..ps.compiled.row_programs import row_programs
from ..ps.compiled.table_programs import Programs
from ..sql.clauses import operators as uses_of
from ..training.clauses.using import read_operators
from ..training.operator_guard import checked
from ..training.plan import Use
from ..training.recipe import make_operator

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
MOST_DIM, MOST_SLOTS = 1 << 14, 0xFFFE
OPTIONS = ("dim", "operators", "slots", "init")
DEFAULT_OPERATORS = "adagrad"


@dataclass(frozen=True)
class DeclaredTable:
    """A table of a parameter server.

    Attributes:
        dim: floats of a row.
        operators: what a push goes through, as OPERATORS of a TRAIN statement says it:
            "admit (min_count = 2), adagrad (learning_rate = 0.05)".
        slots: the slots whose values have rows in it, all of one key space; none: one, of the table's name.
        init: standard deviation of the floats that a new row begins with, uniform around 0: a function of seed and key.
    """

    dim: int
    operators: str = DEFAULT_OPERATORS
    slots: Sequence[str] = ()
    init: float = 0.01

    def slots_of(self, name: str) -> tuple[str, ...]:
        """Return its slots where it has this name."""
        return tuple(self.slots) or (name,)


class DeclaredTables(NamedTuple):
    """All tables of a service, by name, and the seed of what new rows begin with."""

    tables: Mapping[str, DeclaredTable]
    seed: int = 0

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each slot in rows."""
        slots = [slot for name, table in self.tables.items() for slot in table.slots_of(name)]
        return {slot: number for number, slot in enumerate(slots, 1)}

    def uses(self, name: str) -> tuple[Use, ...]:
        """Return the operators of a table.

        Raises:
            StatementError: the text does not say any; names the table.
        """
        return uses(name, self.tables[name].operators)

    def programs(self, name: str) -> Programs:
        """Return the programs of a table; the same ones for the same declaration, so that nothing is compiled again.

        Raises:
            StatementError: operators in an order that cannot work, or that need what programs of users do not bring.
        """
        table, numbers = self.tables[name], self.numbers
        slots = tuple((slot, numbers[slot]) for slot in table.slots_of(name))
        return made(name, table.dim, table.operators, slots, float(table.init), self.seed)

    def as_json(self) -> dict[str, Any]:
        """Return it as a file keeps it."""
        tables = {name: {**dataclasses.asdict(table), "slots": list(table.slots)} for name, table in self.tables.items()}
        return {"tables": tables, "seed": self.seed}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> DeclaredTables:
        """Return what as_json gave."""
        tables = {name: DeclaredTable(**{**table, "slots": tuple(table["slots"])}) for name, table in values["tables"].items()}
        return declared(tables, int(values["seed"]))


def declared(tables: Mapping[str, DeclaredTable], seed: int = 0) -> DeclaredTables:
    """Return the tables of a service, checked.

    Raises:
        StatementError: no table, one whose name, size, slots or operators cannot be; names it.
    """
    if not tables:
        raise StatementError("A parameter server needs a table: tables = {'item': xpsql.ps.Table(dim=16)}.")
    seen: dict[str, str] = {}
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            raise StatementError(f"A table's name has letters, digits and _, and begins with a letter; got {name!r}.")
        check_types(name, table)
        if not isinstance(table.dim, int) or not 0 < table.dim <= MOST_DIM:
            raise OptionError(f"Table {name} needs dim, the floats of a row, from 1 to {MOST_DIM:,}; got {table.dim!r}.")
        if not table.init >= 0:
            raise OptionError(f"Table {name} needs init, a standard deviation, of at least 0; got {table.init!r}.")
        for slot in table.slots_of(name):
            if not slot or slot in seen:
                where = f"table {seen[slot]} has it, too" if slot in seen else "it is empty"
                raise OptionError(f"Table {name} has the slot {slot!r}, and {where}. A slot belongs to one table.")
            seen[slot] = name
    if len(seen) > MOST_SLOTS:
        raise OptionError(f"A parameter server has at most {MOST_SLOTS:,} slots; these tables have {len(seen):,}.")
    same = {
        name: dataclasses.replace(table, slots=tuple(table.slots), operators=table.operators.strip(), init=float(table.init))
        for name, table in tables.items()
    }
    found = DeclaredTables(same, seed)
    for name in tables:
        found.programs(name)
    return found


def check_types(name: str, table: object) -> None:
    """Refuse what is no table, and fields of another type than they have.

    Raises:
        OptionError: names the table.
    """
    if not isinstance(table, DeclaredTable):
        raise OptionError(f"Table {name} is an xpsql.ps.Table, such as xpsql.ps.Table(dim=16); got {table!r}.")
    if isinstance(table.slots, str):
        raise OptionError(f"Table {name} takes slots as a list of names; got {table.slots!r}: write slots=[{table.slots!r}].")
    if not isinstance(table.operators, str):
        raise OptionError(f"Table {name} takes operators as a text, such as 'adagrad'; got {table.operators!r}.")
    if not isinstance(table.init, (int, float)):
        raise OptionError(f"Table {name} needs init, a standard deviation, of at least 0; got {table.init!r}.")


def uses(name: str, text: str) -> tuple[Use, ...]:
    """Return the operators that a text says; arguments and errors as of DeclaredTables.uses."""
    cursor = Cursor.of(f"({text})")
    try:
        given = read_operators(cursor)
        cursor.done()
        found = uses_of(given)
    except StatementError as error:
        raise type(error)(f"Operators of table {name}, ({text}): {error.message}", subject=error.subject) from error
    if used := next((used for used in found if used.on), None):
        raise StatementError(f"Operators of table {name}: {used.name} has ON, and acts on this table alone. Leave ON out.")
    return found


@functools.lru_cache(maxsize=64)
def made(name: str, dim: int, operators: str, slots: tuple[tuple[str, int], ...], init: float, seed: int) -> Programs:
    spec = TableSpec(name, dim, uniform(init, dim) if init else None, slots)
    chosen = [make_operator(parts.OPERATOR.find(use.name, None), use.options, spec) for use in uses(name, operators)]
    for operator in chosen:
        if operator.offers or operator.per_pass:
            raise StatementError(
                f"Operators of table {name}: {operator.name} offers inputs to an algorithm, and a parameter server has none. "
                "Leave it out.",
                subject=Subject("OPERATORS", operator.name),
            )
    try:
        programs = Programs(spec, chain(*map(checked, chosen)), seed)
    except ValueError as error:
        raise StatementError(f"Operators of table {name} cannot be composed: {error}", subject=Subject("OPERATORS")) from error
    (rows,) = row_programs((programs,))
    if rows.needs_updates or rows.needs_pulled:
        raise StatementError(
            f"Operators of table {name}: one of ({operators}) compares a push with what was pulled for it, which pushes of "
            "programs do not tell. Leave staleness_discount and delay_compensation out.",
            subject=Subject("OPERATORS"),
        )
    return programs


def read_table(text: str) -> tuple[str, DeclaredTable]:
    """Return a table as the command line declares it: "item: dim = 16, operators = (admit (min_count = 2), adagrad)".

    Raises:
        StatementError: it is not written so.
    """
    cursor = Cursor.of(text)
    name = cursor.identifier("the name of a table")
    cursor.expect(":")
    values: dict[str, Any] = {}
    more = True
    while more:
        position = cursor.position()
        option = cursor.identifier("dim, operators, slots or init").lower()
        if option not in OPTIONS:
            raise OptionError(f"A table has no option {option!r}.{suggestion(option, OPTIONS)}", position)
        cursor.expect("=")
        if option == "operators":
            values[option] = cursor.parenthesised().text.strip()
        elif option == "slots":
            cursor.expect("(")
            values[option] = cursor.columns("a slot")
            cursor.expect(")")
        else:
            values[option] = cursor.number()
        more = cursor.accept(",")
    cursor.done()
    if "dim" not in values:
        raise OptionError(f"Table {name} needs dim, the floats of a row: --table '{name}: dim = 16'.")
    return name, DeclaredTable(**values)

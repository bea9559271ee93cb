"""How the options of a part (operator, algorithm, statement) are declared, checked and listed.

A part declares its options once, as a frozen dataclass whose fields are made by `option`:

    @dataclass(frozen=True)
    class FtrlOptions:
        alpha: float = option(0.1, "learning rate", minimum=0, open_minimum=True)

From this one declaration come the check of a statement's values (`parse`), the listing of SHOW and DESCRIBE
(`describe`), and the typed object that the part's factory receives.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from .dependent import Fact, When, told
from .errors import OptionError, Position, Subject, suggestion
from .registry import LABELLED, Takes

O = TypeVar("O")  # noqa: E741  the options dataclass of a part
P = TypeVar("P", covariant=True)
T = TypeVar("T")

LEAST_FLOAT32 = 2.0**-126  # what is nearer to 0 is 0 to XLA on CPUs


class Value(NamedTuple):
    """The value of one option in a statement: a literal (number, string, bool, None), a column name or a tuple of values.

    `relation` is the sign between name and value, `=`, `<` or `>`; None where nobody wrote one.
    """

    value: Any
    position: Position | None = None
    relation: str | None = None


def written(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return options from a manifest as a statement would give them; JSON has lists where they had tuples."""
    return {name: Value(as_tuple(value)) for name, value in values.items()}


def as_tuple(value: Any) -> Any:
    return tuple(map(as_tuple, value)) if isinstance(value, list | tuple) else value


class Limits(NamedTuple):
    """What `option` declares beside type and default."""

    help: str
    minimum: float | None
    maximum: float | None
    open_minimum: bool
    open_maximum: bool
    choices: tuple[str, ...]
    relation: str
    optimizer: bool
    role: str = ""
    length: str = ""
    needs: tuple[When, ...] = ()
    facts: tuple[Fact, ...] = ()

    def text(self) -> str:
        """Return the range as readers write it: `(0, 1]`, `a | b`, or an empty string."""
        if self.choices:
            return " | ".join(self.choices)
        if self.minimum is None and self.maximum is None:
            return ""
        low = "(-inf" if self.minimum is None else f"{'(' if self.open_minimum else '['}{number(self.minimum)}"
        high = "inf)" if self.maximum is None else f"{number(self.maximum)}{')' if self.open_maximum else ']'}"
        return f"{low}, {high}"

    def excluded(self) -> tuple[float | None, ...]:
        """Return the numbers at the ends of the range that are not in it."""
        low = self.minimum if self.open_minimum else None
        high = self.maximum if self.open_maximum else None
        return -math.inf, low, high, math.inf


def number(value: float) -> str:
    """Return a bound in full: 1048576, 0.5."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    open_minimum: bool = False,
    open_maximum: bool = False,
    choices: tuple[str, ...] = (),
    relation: str = "=",
    optimizer: bool = False,
    role: str = "",
    length: str = "",
    needs: tuple[When, ...] = (),
    facts: tuple[Fact, ...] = (),
) -> Any:
    """Declare one option as a dataclass field: its default, one line of help, and the values it takes.

    An option that is a bound is written as one: with relation ">", `utility > 0.5`. One of an algorithm that only sets its own
    optimizers says `optimizer=True`: a statement whose OPERATORS name another optimizer may not give it. One of an algorithm
    that names columns to be read in a way of their own says it as the columns' `role`, such as "sequence", with the option that
    has the most elements to read of each as `length`. One that matters beside others alone says which it `needs`, one of them;
    one that matters to some trainings alone, which `facts` must be so of them.
    """
    help += f"; needs {told(needs, facts)}" if needs or facts else ""
    shown = help, minimum, maximum, open_minimum, open_maximum, choices, relation
    limits = Limits(*shown, optimizer, role, length, needs, facts)
    return dataclasses.field(default=default, metadata={"limits": limits})


def adapted(options: O, layout: Any) -> O:
    """Return options as they are for a model of some slots: where nobody gave a value that depends on them, the one that suits
    them, as the method `adapted` of the options says; their factories and ML.OPTIONS have it from there."""
    found: O = options.adapted(layout) if hasattr(options, "adapted") else options
    return found


def given_or(options: O, **usual: Any) -> O:
    """Return options with usual values where nobody gave one."""
    changed = {name: value for name, value in usual.items() if getattr(options, name) is None}
    return dataclasses.replace(options, **changed)  # type: ignore[type-var]


def known(value: T | None) -> T:
    """Return the value of an option that is adapted."""
    assert value is not None
    return value


class Named(NamedTuple):
    """Columns that an option names, to be read in the way of a role; of each at most `length` elements."""

    option: str
    columns: tuple[str, ...]
    role: str
    length: int


def named_columns(options: Any) -> list[Named]:
    """Return the columns that options with a role name; `roles` of the options gives other roles than those declared."""
    found = []
    for field in dataclasses.fields(options):
        limits, value = field.metadata.get("limits"), getattr(options, field.name)
        if limits is not None and limits.role and value:
            columns = value if isinstance(value, tuple) else (value,)
            length = getattr(options, limits.length) if limits.length else 0
            role = getattr(options, "roles", {}).get(field.name, limits.role)
            found.append(Named(written_name(field.name), tuple(map(str, columns)), role, length))
    return found


def events_read(options: Any) -> int:
    """Return how many events of a user an algorithm reads together, by GROUP and TIME; 0 where each row is read by itself."""
    found: int = getattr(options, "events_read", 0)
    return found


class Described(NamedTuple):
    """One option as SHOW and DESCRIBE list it."""

    name: str
    type: str
    default: Any
    range: str
    help: str


def describe(options: type[Any]) -> list[Described]:
    """List the options that a dataclass declares, in order of declaration."""
    hints = get_type_hints(options)
    return [
        Described(
            described_name(f), type_name(hints[f.name]), f.default, f.metadata["limits"].text(), f.metadata["limits"].help
        )
        for f in dataclasses.fields(options)
    ]


def described_name(field: dataclasses.Field[Any]) -> str:
    """Return the name of an option, of a bound with its sign: `utility >`."""
    relation = field.metadata["limits"].relation
    return written_name(field.name) + ("" if relation == "=" else f" {relation}")


def signs(options: type[Any]) -> dict[str, str]:
    """Return the sign between name and value of each option, by its name as statements write it."""
    return {written_name(f.name): f.metadata["limits"].relation for f in dataclasses.fields(options)}


def of_optimizer(options: type[Any]) -> frozenset[str]:
    """Return the names of the options of an algorithm that only set its own optimizers."""
    return frozenset(written_name(f.name) for f in dataclasses.fields(options) if f.metadata["limits"].optimizer)


def written_name(field: str) -> str:
    """Return a field's name as statements write it: a field named by a keyword of Python, `lambda_`, ends with _."""
    return field.removesuffix("_")


def parse(options: type[O], given: Mapping[str, Value], owner: Subject) -> O:
    """Check the values of a statement against a declaration and return the options object.

    Args:
        options: the dataclass that declares them.
        given: option name to value; names are compared without case.
        owner: what the options belong to: an operator, an algorithm, a clause.

    Raises:
        OptionError: an unknown name, a wrong type or a value out of range.
    """
    fields = {written_name(f.name): f for f in dataclasses.fields(options)}  # type: ignore[arg-type]
    hints = get_type_hints(options)
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = fields.get(name.lower())
        if field is None:
            raise OptionError(f"{owner} has no option {name!r}.{suggestion(name, fields)}", value.position, owner)
        subject = owner._replace(option=name.lower())
        values[field.name] = check(value, hints[field.name], field.metadata["limits"], subject)
    return options(**values)


def check(value: Value, hint: Any, limits: Limits, subject: Subject) -> Any:
    """Return the value converted to the declared type, or raise OptionError saying what was expected."""
    expected = type_name(hint)
    if value.relation not in (None, limits.relation):
        written = f"{subject.option} {limits.relation} value"
        raise OptionError(f"{subject} is written {written}, got {value.relation!r}.", value.position, subject)
    converted, names = convert(value.value, expected), get_origin(hint) is tuple and get_args(hint)[0] is str
    if converted is REFUSED or (names and not all(isinstance(item, str) for item in converted)):
        came = "NULL" if value.value is None else repr(value.value)
        what = "names" if names else article(expected)
        raise OptionError(f"{subject} expects {what}, got {came}.", value.position, subject)
    if limits.choices and converted is not None:
        chosen = tuple(str(item).lower() for item in (converted if isinstance(converted, tuple) else (converted,)))
        wrong = next((item for item in chosen if item not in limits.choices), None)
        if wrong is not None:
            raise OptionError(f"{subject} does not take {wrong!r}.{suggestion(wrong, limits.choices)}", value.position, subject)
        return chosen if isinstance(converted, tuple) else chosen[0]
    if isinstance(converted, (int, float)) and not inside(converted, limits):
        raise OptionError(f"{subject} expects a value in {limits.text()}, got {value.value!r}.", value.position, subject)
    if isinstance(converted, float) and (held := as_float32(converted)) in limits.excluded():
        text = f"{subject} expects a value in {limits.text()}, got {value.value!r}, which is {held:g} in float32."
        raise OptionError(text, value.position, subject)
    return converted


REFUSED = object()


def convert(value: Any, expected: str) -> Any:
    """Return `value` as the expected type ("float", "int or none", ...), or REFUSED."""
    if value is None:
        return None if expected.endswith("or none") else REFUSED
    kind = expected.removesuffix(" or none")
    if kind == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if (
        kind == "int"
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value == int(value)
    ):
        return int(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "string" and isinstance(value, str) and (value or kind == expected):  # no option may be left out as ''
        return value
    if kind == "list":
        return value if isinstance(value, tuple) else (value,)
    if kind == "mapping" and isinstance(value, Mapping):
        return {str(key): str(item).lower() if isinstance(item, bool) else str(item) for key, item in value.items()}
    return REFUSED


def inside(number: float, limits: Limits) -> bool:
    """Return whether a number lies in the declared range; one that is not finite lies in none."""
    low, high = limits.minimum, limits.maximum
    if not math.isfinite(number):
        return False
    if low is not None and (number < low or (limits.open_minimum and number == low)):
        return False
    return not (high is not None and (number > high or (limits.open_maximum and number == high)))


def as_float32(number: float) -> float:
    """Return a number as compiled programs take it: infinite where it is too large for float32, 0 where it is too small."""
    return 0.0 if abs(number) < LEAST_FLOAT32 else ctypes.c_float(number).value


def type_name(hint: Any) -> str:
    """Return the name of an option's type as users read it."""
    text = hint.__name__ if isinstance(hint, type) else str(hint)
    none = " or none" if "None" in text else ""
    text = text.replace("str", "string")
    for name in ("dict", "tuple", "float", "bool", "int", "string"):
        if name in text:
            return {"dict": "mapping", "tuple": "list"}.get(name, name) + none
    raise TypeError(f"options are float, int, bool, str, tuple or dict, not {hint}")


def article(expected: str) -> str:
    """Return "a float", "an int", ..."""
    return ("an " if expected.startswith("int") else "a ") + expected


class Part(NamedTuple, Generic[O, P]):
    """A named, optioned part: an operator or an algorithm, as OPERATORS and ALGORITHMS hold them.

    Attributes:
        name: as written in SQL.
        options: the dataclass that declares its options.
        make: the factory; its docstring's first line is the part's summary.
        takes: what statements of an algorithm take.
    """

    name: str
    options: type[O]
    make: Callable[..., P]
    takes: Takes = LABELLED

    def read(self, given: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the options of a statement, or of a manifest, as a manifest keeps them, before they are checked.

        A value without a position was written by no statement: it may come from a folder that was copied from anywhere, so
        no file is read and no module looked for that it names.
        """
        return given

    def check_carried(self, options: Mapping[str, Any]) -> None:
        """Refuse the options in a manifest that no training writes.

        Raises:
            ModelError: the manifest is damaged.
        """

    @property
    def summary(self) -> str:
        return (self.make.__doc__ or "").strip().partition("\n")[0]

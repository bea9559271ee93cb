"""From the columns of a training query to slots: which are learned from, what kind each is, and what the others are for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ...warehouse.manifest import Manifest
from ..errors import StatementError, suggestion
from ..operators.base import INTERCEPT_NUMBER
from ..spark_types import type_words
from .roles import Roles

INTERCEPT = "(intercept)"
INTERCEPT_KIND = "intercept"
OFFERED_KIND = "offered"
CATEGORICAL, CONTINUOUS, MULTI, WEIGHTED, VECTOR = "categorical", "continuous", "multi-valued", "weighted", "vector"


@dataclass(frozen=True)
class Slot:
    """A feature column.

    Attributes:
        name: the column.
        kind: categorical, continuous, multi-valued, weighted or vector.
        type: the column's, in Spark's words.
        number: as stored with each row.
        source: the slot whose rows it uses; its own name unless shared.
        hashed: values are ready-made 64-bit ids.
        dim: elements of a vector; 0 until the first batch tells, and for other kinds.
    """

    name: str
    kind: str
    type: str
    number: int
    source: str
    hashed: bool = False
    dim: int = 0


@dataclass(frozen=True)
class Columns:
    """How a model reads a query's columns: its slots and the columns with another role; the algorithm tells of an intercept.

    `offered` are the inputs made of what operators offer of features: of each categorical slot, then of each multi-valued and
    weighted one, as many as operators offer. `grouped` and `by`: what an evaluation reads, the GROUP column and that of BY.
    `standardised`: labels are learned in standard deviations from their mean, as the algorithm tells.
    """

    slots: tuple[Slot, ...]
    labels: tuple[str, ...]
    weight: str | None
    time: str | None
    group: str | None
    ignore: tuple[str, ...]
    null_features: bool
    intercept: bool = False
    offered: tuple[Slot, ...] = ()
    grouped: bool = False
    by: str | None = None
    logarithmic: bool = False
    standardised: bool = False

    def of_kind(self, *kinds: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.kind in kinds)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that scoring needs."""
        return tuple(slot.name for slot in self.slots)

    @property
    def scaled(self) -> tuple[str, ...]:
        """The columns that are standardised: continuous slots, then labels."""
        return (*(slot.name for slot in self.of_kind(CONTINUOUS)), *(self.labels if self.standardised else ()))

    @property
    def learned(self) -> tuple[str, ...]:
        """The columns that training needs."""
        needed = (*self.inputs, *self.labels, self.weight, self.time, self.group if self.grouped else None, self.by)
        return tuple(dict.fromkeys(column for column in needed if column))

    @property
    def intercept_slot(self) -> tuple[Slot, ...]:
        """The slot of the intercept, if the model has one."""
        return (Slot(INTERCEPT, INTERCEPT_KIND, "", INTERCEPT_NUMBER, INTERCEPT),) if self.intercept else ()

    @property
    def all_slots(self) -> tuple[Slot, ...]:
        """The slots that rows belong to."""
        return (*self.slots, *self.offered, *self.intercept_slot)

    @property
    def slot_names(self) -> dict[int, str]:
        """Slot number -> name."""
        return {slot.number: slot.name for slot in self.all_slots}


def columns_of(schema: pa.Schema, wanted: Roles, parent: Manifest | None) -> Columns:
    """Find the slots and roles of a training query.

    A version that continues another keeps its slots, in their order, and may add some; names are compared without case, and
    stay as they were.

    Raises:
        StatementError: a role's column is missing, a type is no slot kind, two columns have one name, or nothing is left
            to learn from.
    """
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StatementError(f"The query has two columns named {', '.join(twice)}; give each column a name of its own with AS.")
    if INTERCEPT in names:
        raise StatementError(f"{INTERCEPT} is the name of what every example has; give that column another one with AS.")
    own = {name.lower(): name for name in schema.names}
    single = (("WEIGHT", wanted.weight), ("TIME", wanted.time), ("GROUP", wanted.group), ("EVALUATE", wanted.by))
    roles = [("LABEL", wanted.labels), ("IGNORE", wanted.ignore), *((role, (column,)) for role, column in single if column)]
    roles += [("WITH hashed", wanted.hashed), ("WITH share", tuple(column for pair in wanted.share for column in pair))]
    for role, columns in roles:
        for column in columns:
            if column.lower() not in own:
                usual = " where it is not written" if wanted.labels == ("label",) and role == "LABEL" else ""
                before = f" as in version {parent.version}" if parent is not None and column in roles_before(parent) else ""
                raise StatementError(
                    f"{role} names {column!r}{before or usual}, which the query does not return."
                    f"{suggestion(column, own.values())}"
                )
    found = {role: tuple(own[column.lower()] for column in columns) for role, columns in roles}
    for role in ("LABEL", "IGNORE"):
        if twice := sorted({name for name in found[role] if found[role].count(name) > 1}):
            raise StatementError(f"{role} names {', '.join(twice)} twice; name each column once.")
    check_ignored(found)
    labels = found["LABEL"] if parent is None else continued_labels(found["LABEL"], parent)
    for role in ("LABEL", "WEIGHT"):
        for column in found.get(role, ()):
            require_number(schema.field(column), role)
    if wanted.time:
        require_time(schema.field(found["TIME"][0]))
    for role, clause in (("GROUP", "GROUP"), ("EVALUATE", "EVALUATE BY")):
        for column in found.get(role, ()):
            require_value(schema.field(column), clause)
    taken = {c: role for role in ("LABEL", "IGNORE", "WEIGHT", "TIME", "GROUP") for c in found.get(role, ())}
    for role in ("WITH hashed", "WITH share"):
        for column in found[role]:
            if column in taken:
                raise StatementError(f"{role} names {column!r}, which is no slot: {taken[column]} names it, too.")
    left = [field for field in schema if field.name not in taken]
    if not left:
        raise StatementError("The query returns no column to learn from beside label, weight, time, group and ignored ones.")
    shared = {own[a.lower()]: own[b.lower()] for a, b in wanted.share}
    slots = tuple(
        Slot(
            f.name,
            kind_of(f, found["WITH hashed"]),
            type_words(f.type),
            i,
            shared.get(f.name, f.name),
            f.name in found["WITH hashed"],
        )
        for i, f in enumerate(left)
    )
    slots = slots if parent is None else continued(slots, parent)
    check_shared(slots)
    only = {role: (found[role][0] if role in found else None) for role in ("WEIGHT", "TIME", "GROUP")}
    return Columns(
        slots,
        labels,
        only["WEIGHT"],
        only["TIME"],
        only["GROUP"],
        found["IGNORE"],
        wanted.nulls,
        grouped=wanted.grouped,
        by=found["EVALUATE"][0] if "EVALUATE" in found else None,
    )


def continued(slots: tuple[Slot, ...], parent: Manifest) -> tuple[Slot, ...]:
    """Return the slots as a version goes on with them: its parent's first, by their numbers, then new ones.

    Raises:
        StatementError: a slot of the parent is missing, or its kind has changed.
    """
    by_name = {slot.name.lower(): slot for slot in slots}
    kept = []
    for old in parent.slots:
        if old.kind in (INTERCEPT_KIND, OFFERED_KIND):
            continue
        slot = by_name.pop(old.name.lower(), None)
        if slot is None:
            raise StatementError(
                f"CONTINUE needs the slot {old.name} of version {parent.version}; the query does not return it. Select it, or "
                f"CAST(NULL AS {old.type.upper()}) AS `{old.name}`."
            )
        as_before = slot.kind == old.kind and not rewritten(slot.kind, slot.type, old.type)
        as_before &= slot.hashed == old.hashed and slot.source.lower() == (old.share or old.name).lower()
        if not as_before:
            now = described(slot.kind, slot.type, slot.hashed, slot.source if slot.source != slot.name else None)
            before = described(old.kind, old.type, old.hashed, old.share)
            raise StatementError(
                f"Slot {old.name} is {now} and was {before} in version {parent.version}. "
                "CAST it in the query, and use the same hashed and share settings."
            )
        kept.append(replace(slot, name=old.name, source=old.share or old.name, number=old.number, dim=old.dim))
    first = 1 + max((slot.number for slot in kept), default=-1)
    return (*kept, *(replace(slot, number=number) for number, slot in enumerate(by_name.values(), first)))


def described(kind: str, type: str, hashed: bool, share: str | None) -> str:
    """Return what a slot is, in words."""
    settings = [*(["hashed"] if hashed else []), *([f"with the rows of {share}"] if share else [])]
    return f"{kind} ({', '.join([type, *settings])})"


def continued_labels(labels: tuple[str, ...], parent: Manifest) -> tuple[str, ...]:
    """Return the labels as a version goes on with them: under its parent's names.

    Raises:
        StatementError: they are others, or in another order: the weights of each are those of its place.
    """
    if [label.lower() for label in labels] != [label.lower() for label in parent.labels]:
        before = ", ".join(parent.labels)
        raise StatementError(
            f"LABEL names {', '.join(labels)} and was {before} in version {parent.version}, whose weights go on. "
            f"Write LABEL {before}; SELECT a column that has another name now AS the old one; or TRAIN a new model."
        )
    return parent.labels


def offered_slots(columns: Columns, offers: tuple[str, ...], parent: Manifest | None) -> tuple[Slot, ...]:
    """Return the inputs that operators offer of the slots of features; a version that continues another keeps their numbers.

    Numbers go down from the intercept's, those of slots up from 0.

    Raises:
        StatementError: a slot of the query has the name of one of them, or the parent has some that are offered no more.
    """
    sources = (*columns.of_kind(CATEGORICAL), *columns.of_kind(MULTI, WEIGHTED))
    names = [f"{slot.name}:{offer}" for slot in sources for offer in offers]
    numbers = {slot.name: slot.number for slot in parent.slots if slot.kind == OFFERED_KIND} if parent else {}
    gone = sorted(numbers.keys() - set(names))
    if gone:
        raise StatementError(f"CONTINUE needs the operators that offer {', '.join(gone)}: the model has learned from them.")
    clash = sorted({slot.name for slot in columns.slots} & set(names))
    if clash:
        raise StatementError(f"The operators offer {', '.join(clash)}, and the query returns it; rename it with AS.")
    free = itertools.count(min(numbers.values(), default=INTERCEPT_NUMBER) - 1, -1)
    return tuple(Slot(name, OFFERED_KIND, "", numbers[name] if name in numbers else next(free), name) for name in names)


def columns_from(manifest: Manifest) -> Columns:
    """Return the slots and roles of a trained version."""
    slots = [Slot(s.name, s.kind, s.type, s.number, s.share or s.name, s.hashed, s.dim) for s in manifest.slots]
    return Columns(
        tuple(slot for slot in slots if slot.kind not in (INTERCEPT_KIND, OFFERED_KIND)),
        manifest.labels,
        manifest.weight,
        manifest.time,
        manifest.group,
        manifest.ignore,
        manifest.settings.get("nulls", "feature") == "feature",
        any(slot.kind == INTERCEPT_KIND for slot in slots),
        tuple(slot for slot in slots if slot.kind == OFFERED_KIND),
        standardised=bool(manifest.labels) and set(manifest.labels) <= set(manifest.statistics.get("scaled", ())),
    )


def matched(columns: Columns, schema: pa.Schema, wanted: Iterable[str]) -> dict[str, str]:
    """Return how a query's columns answer to a model's, which are compared without case: model's name -> query's.

    Raises:
        StatementError: a column is missing, or its kind has changed.
    """
    own = {name.lower(): name for name in schema.names}
    slots = {slot.name: slot for slot in columns.slots}
    found = {}
    for name in wanted:
        if name.lower() not in own:
            raise StatementError(
                f"The model needs the column {name}, which the query does not return.{suggestion(name, schema.names)}"
            )
        found[name] = own[name.lower()]
        field = schema.field(found[name])
        if name not in slots:
            continue
        slot, kind, words = slots[name], kind_of(field, [field.name] if slots[name].hashed else []), type_words(field.type)
        if kind != slot.kind or rewritten(kind, words, slot.type):
            raise StatementError(
                f"Column {name} is {words}, a {kind} slot; the model learned it as {slot.kind} ({slot.type}). "
                "CAST it in the query."
            )
    return found


def rewritten(kind: str, now: str, before: str) -> bool:
    """Tell whether a categorical column's values are written in another way than before: 1 is not true, nor a date.

    Strings may be written in any.
    """
    ways = {way(now), way(before)}
    return kind == CATEGORICAL and len(ways) > 1 and "string" not in ways


def way(words: str) -> str:
    """Return how values of a type are written: as boolean, date, int or string."""
    return next((one for one in ("boolean", "date") if words.startswith(one)), "int" if words.endswith("int") else "string")


def kind_of(field: pa.Field, hashed: Iterable[str]) -> str:
    """Return the slot kind of a column's type.

    Raises:
        StatementError: the type is no slot kind, or a hashed slot is not BIGINT.
    """
    kind = field.type
    if field.name in hashed and not (pa.types.is_int64(kind) or (is_list(kind) and pa.types.is_int64(kind.value_type))):
        raise StatementError(f"WITH hashed expects a BIGINT or array<bigint> column; {field.name} is {type_words(kind)}.")
    if is_category(kind):
        return CATEGORICAL
    if is_number(kind):
        return CONTINUOUS
    if is_list(kind) and is_category(kind.value_type):
        return MULTI
    if is_list(kind) and is_number(kind.value_type):
        return VECTOR
    if pa.types.is_map(kind) and is_category(kind.key_type) and is_weight(kind.item_type):
        return WEIGHTED
    name = field.name
    remedy = (
        f"Select its fields ({name}.{kind.field(0).name} AS {name}_{kind.field(0).name}, ...) or to_json({name})"
        if pa.types.is_struct(kind) and kind.num_fields
        else "Cast it (strings, integers, booleans and dates are categories; float and decimal continuous; arrays "
        "of categories and map<string, float> multi-valued; array<float> a vector)"
    )
    raise StatementError(
        f"Column {name} has type {type_words(kind)}, which is no kind of slot. {remedy}, or name it in IGNORE."
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_category(kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        return is_category(kind.value_type)
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_boolean(kind) or t.is_integer(kind) or t.is_date(kind))


def is_weight(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def roles_before(parent: Manifest) -> set[str | None]:
    """Return the columns that have a role in a version, which CONTINUE takes over where it names no others."""
    by = parent.evaluate["by"] if parent.evaluate else None
    return {*parent.labels, *parent.ignore, parent.weight, parent.time, parent.group, by}


def check_ignored(roles: Mapping[str, Sequence[str]]) -> None:
    """Refuse a column that is to be ignored and has a role, in which it is used.

    Args:
        roles: their columns, IGNORE's among them.
    """
    for role in ("LABEL", "WEIGHT", "TIME", "GROUP"):
        for column in roles.get(role, ()):
            if column in roles["IGNORE"]:
                raise StatementError(
                    f"IGNORE and {role} both name {column!r}. Leave it out of IGNORE: a {role} is never learned from."
                )


def require_number(field: pa.Field, role: str) -> None:
    if not (is_number(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)):
        raise StatementError(
            f"{role} expects a number or boolean; {field.name} is {type_words(field.type)}. CAST it in the query."
        )


def require_time(field: pa.Field) -> None:
    t = pa.types
    if not (t.is_timestamp(field.type) or t.is_date(field.type) or t.is_integer(field.type)):
        raise StatementError(
            f"TIME expects a timestamp, a date, or seconds since 1970 as an integer; {field.name} is {type_words(field.type)}."
        )


def require_value(field: pa.Field, role: str) -> None:
    """Refuse a column whose values have no text: groups and segments are told apart by it."""
    kind, t = field.type, pa.types
    if not (is_category(kind) or is_number(kind) or t.is_timestamp(kind) or t.is_time(kind)):
        raise StatementError(
            f"{role} expects a string, number, boolean, date or timestamp; {field.name} is {type_words(kind)}. "
            "Select a field or element of it, hex() of a BINARY, or CAST it in the query."
        )


def check_shared(slots: tuple[Slot, ...]) -> None:
    """Refuse a slot that shares with one whose rows it cannot use."""
    by_name = {slot.name: slot for slot in slots}
    for slot in slots:
        target = by_name.get(slot.source)
        if target is None:
            raise StatementError(f"WITH share names {slot.source}, which is not learned from; share with a slot of the query.")
        if target.source != target.name:
            raise StatementError(
                f"WITH share: {slot.name} uses {target.name}, which itself uses {target.source}; name {target.source}."
            )
        if slot is not target and {slot.kind, target.kind} & {CONTINUOUS, VECTOR}:
            raise StatementError(
                f"WITH share expects categorical, multi-valued or weighted slots; got {slot.name} and {target.name}."
            )

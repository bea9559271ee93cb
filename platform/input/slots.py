"""Schema resolution: which columns of a training query are slots, of which kind, and which roles the others have."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from ...algorithms.augments.pairs import PAIRS_NUMBER
from ...warehouse.entries import SlotEntry
from ...warehouse.manifest import Manifest
from ..engines.base import check_names_apart
from ..errors import StatementError, suggestion
from ..options import Named
from ..spark_types import type_words
from .columns import INTERCEPT, MADE_KINDS, OFFERED_KIND, Classes, Columns, columns_from, slot_of
from .crossed.crossed_slots import crosses_of
from .kinds import kind_accepting, kind_named
from .kinds.events import MOMENT, USER
from .kinds.types import is_list
from .role_columns import check_slots_left, check_types, found_roles
from .roles import BY, GROUP, HASHED, IGNORE, LABEL, RAW, SHARE, SOURCE, TASK, TIME, WEIGHT, Roles
from .side.binding import sides_of
from .slot import Slot
from .slot_types import check_ids, is_text, kind_in_role, kind_of, require_classes, words_of


def columns_of(schema: pa.Schema, wanted: Roles, parent: Manifest | None) -> Columns:
    """Find the slots and roles of a training query.

    A version that continues another keeps its slots, in their order, and may add some; names are compared without case, and
    stay as they were.

    Raises:
        StatementError: a role's column is missing, a type is no slot kind, two columns have one name, or nothing is left
            to learn from.
    """
    check_names_apart(schema)
    if INTERCEPT in (name.lower() for name in schema.names):
        raise StatementError(f"{INTERCEPT} is the name of what every example has; give that column another one with AS.")
    own = {name.lower(): name for name in schema.names}
    shareable = {**own, **{name.lower(): name for name in fields_of(schema)}}
    if wanted.source is not None and wanted.target is not None:
        wanted = wanted._replace(share=(*wanted.share, (wanted.target, wanted.source)), nulls=False)
    found = found_roles(wanted, own, shareable, parent)
    labels = found[LABEL] if parent is None else continued_labels(found[LABEL], parent)
    classes = classes_in([schema.field(column) for column in found[LABEL]], wanted.multiclass, parent)
    check_types(schema, found, classes is not None)
    taken = {c: role for role in (LABEL, IGNORE, WEIGHT, TIME, GROUP) for c in found.get(role, ())}
    read = {own[c.lower()] for named in wanted.named if named.role in (USER.role, MOMENT.role) for c in named.columns}
    taken = {column: role for column, role in taken.items() if column not in read}
    check_slots_left(schema, taken, found, (HASHED, RAW, SHARE, *map(wanted.subject, wanted.named)))
    left = sorted(
        (field for field in schema if field.name not in taken), key=lambda field: field.name not in found.get(SOURCE, ())
    )
    shared = {shareable[a.lower()]: shareable[b.lower()] for a, b in wanted.share}
    slots = tuple(slots_of(left, found[HASHED], found[RAW], shared, wanted))
    slots = (*slots, *crosses_of(slots, wanted.crosses)) if parent is None else continued(slots, parent)
    check_shared(slots)
    only = {role: (found[role][0] if role in found else None) for role in (WEIGHT, TIME, GROUP)}
    return Columns(
        slots,
        labels,
        only[WEIGHT],
        only[TIME],
        only[GROUP],
        found[IGNORE],
        wanted.nulls,
        grouped=wanted.grouped,
        by=found[BY][0] if BY in found else None,
        classes=classes,
        sides=sides_of(wanted, slots, parent),
    )


def fields_of(schema: pa.Schema) -> list[str]:
    """Return the names that fields of arrays of structs have as slots, `column.field`."""
    arrays = [(field.name, field.type.value_type) for field in schema if is_list(field.type)]
    return [f"{name}.{one.name}" for name, element in arrays if pa.types.is_struct(element) for one in element]


def slots_of(
    fields: Sequence[pa.Field], hashed: Sequence[str], raw: Sequence[str], shared: Mapping[str, str], wanted: Roles
) -> Iterator[Slot]:
    """Yield the slots of columns, numbered in their order.

    Args:
        hashed, raw: the columns of ready-made ids.
        shared: slot -> the slot whose rows it uses.

    Raises:
        StatementError: see kind_of; options name a column twice.
    """
    if both := sorted({*hashed} & {*raw}):
        raise StatementError(f"{RAW} and hashed name {', '.join(both)}: ids are hashed, or are keys as they are.", subject=RAW)
    naming: dict[str, Named] = {}
    for named in wanted.named:
        lowered = [column.lower() for column in named.columns]
        for column in named.columns:
            if (other := naming.setdefault(column.lower(), named)) is not named or lowered.count(column.lower()) > 1:
                subject = wanted.subject(named)
                message = f"{subject} names {column!r}, which {other.option} names, too. Name it once."
                raise StatementError(message, subject=subject)
    number = itertools.count()
    for field in fields:
        named = naming.get(field.name.lower(), UNNAMED)
        subject = wanted.subject(named)
        check_ids(field, raw, RAW)
        kind = kind_in_role(field, hashed, named.role, subject) if named.role else kind_of(field, hashed)
        for part in kind.fields(field.type):
            name = f"{field.name}.{part}" if part else field.name
            yield Slot(
                name,
                kind.name,
                type_words(field.type),
                next(number),
                shared.get(name, name),
                field.name in hashed,
                role=named.role,
                group=named.option,
                length=named.length,
                field=part,
                raw=field.name in raw,
            )


UNNAMED = Named("", (), "", 0)
"""The subject of columns that no option names."""


def continued(slots: tuple[Slot, ...], parent: Manifest) -> tuple[Slot, ...]:
    """Return the slots of a version that continues another: its parent's first, by their numbers, then new ones.

    Raises:
        StatementError: a slot of the parent is missing, or its kind has changed.
    """
    by_name = {slot.name.lower(): slot for slot in slots}
    kept = []
    for old in parent.slots:
        if old.kind in MADE_KINDS:
            continue
        if old.members:
            kept.append(crossed_before(old, by_name))
            continue
        slot = by_name.pop(old.name.lower(), None)
        if slot is None:
            raise StatementError(
                f"CONTINUE needs the slot {old.name} of version {parent.version}; the query does not return it. Select it, or "
                f"CAST(NULL AS {old.type.upper()}) AS `{old.name}`."
            )
        learned = kind_named(old.kind)
        as_before = slot.kind == learned.name and not learned.rewritten(slot.type, old.type)
        as_before &= (slot.hashed, slot.raw, slot.group) == (old.hashed, old.raw, old.group)
        as_before &= slot.source.lower() == (old.share or old.name).lower()
        if not as_before:
            now = described(slot, slot.source if slot.source != slot.name else None)
            before = described(old, old.share)
            raise StatementError(
                f"Slot {old.name} is {now} and was {before} in version {parent.version}. "
                "CAST it in the query, and use the same hashed, raw and share settings."
            )
        kept.append(replace(slot, name=old.name, source=old.share or old.name, number=old.number, dim=old.dim))
    first = 1 + max((slot.number for slot in kept), default=-1)
    return (*kept, *(replace(slot, number=number) for number, slot in enumerate(by_name.values(), first)))


def crossed_before(cross: SlotEntry, added: Mapping[str, Slot]) -> Slot:
    """Return a cross of the parent.

    Raises:
        StatementError: the query returns a column of its name.
    """
    if cross.name.lower() in added:
        raise StatementError(f"The query returns {cross.name}, which the model makes by CROSS. Rename it with AS.")
    return slot_of(cross)


def described(slot: Slot | SlotEntry, share: str | None) -> str:
    """Return the description of a slot."""
    settings = (("hashed", slot.hashed), ("raw", slot.raw), (f"with the rows of {share}", share is not None))
    return f"{slot.kind} ({', '.join([slot.type, *(words for words, there in settings if there)])})"


def continued_labels(labels: tuple[str, ...], parent: Manifest) -> tuple[str, ...]:
    """Return the labels of a version that continues another, under its parent's names.

    Raises:
        StatementError: they differ, or their order does: weights belong to a label's position.
    """
    if [label.lower() for label in labels] != [label.lower() for label in parent.roles.labels]:
        before = ", ".join(parent.roles.labels)
        raise StatementError(
            f"{LABEL} names {', '.join(labels)} and was {before} in version {parent.version}, whose weights "
            f"are continued. Write LABEL {before}; SELECT a column that has another name now AS the old one; or "
            "TRAIN a new model.",
            subject=LABEL,
        )
    return parent.roles.labels


def classes_in(labels: Sequence[pa.Field], multiclass: bool, parent: Manifest | None) -> Classes | None:
    """Return the classes of a label, which a new model does not know yet; None where labels are numbers.

    Raises:
        StatementError: there are several labels, or the label has another type than before, or a type without classes.
    """
    before = columns_from(parent).classes if parent is not None else None
    if before is None and not multiclass and (parent is not None or len(labels) != 1 or not is_text(labels[0].type)):
        return None
    if len(labels) != 1 or (parent is not None and before is None):
        what = f"LABEL names {len(labels)} columns" if len(labels) != 1 else "the version that it continues learned numbers"
        message = f"{TASK} = 'multiclass' is for one label whose values are classes, and {what}. Leave it out."
        raise StatementError(message, subject=TASK)
    (label,) = labels
    require_classes(label, LABEL)
    if before is None:
        kind = label.type.value_type if pa.types.is_dictionary(label.type) else label.type
        return Classes((0, 1), str(kind), known=False)
    if is_text(label.type) != is_text(before.arrow_type):
        raise StatementError(
            f"{LABEL} {label.name} is {type_words(label.type)} and was {type_words(before.arrow_type)} in the model. CAST it.",
            subject=LABEL,
        )
    return before


def offered_slots(columns: Columns, offers: tuple[str, ...], parent: Manifest | None) -> tuple[Slot, ...]:
    """Return the inputs that operators offer for slots of features; a version that continues another keeps their numbers.

    Their numbers go down from the intercept's; slots' numbers go up from 0.

    Raises:
        StatementError: a slot of the query has the name of one of them, or some of the parent's are no longer offered.
    """
    names = [f"{slot.name}:{offer}" for slot in (*columns.scalar, *columns.bags) for offer in offers]
    numbers = {slot.name: slot.number for slot in parent.slots if slot.kind == OFFERED_KIND} if parent else {}
    gone = sorted(numbers.keys() - set(names))
    if gone:
        raise StatementError(f"CONTINUE needs the operators that offer {', '.join(gone)}: the model has learned from them.")
    clash = sorted({slot.name for slot in columns.slots} & set(names))
    if clash:
        raise StatementError(f"The operators offer {', '.join(clash)}, and the query returns it; rename it with AS.")
    free = itertools.count(min(numbers.values(), default=PAIRS_NUMBER) - 1, -1)
    return tuple(Slot(name, OFFERED_KIND, "", numbers[name] if name in numbers else next(free), name) for name in names)


def matched(columns: Columns, schema: pa.Schema, wanted: Iterable[str]) -> dict[str, str]:
    """Match a query's columns to a model's, compared without case: model's name -> query's.

    Raises:
        StatementError: a column is missing, or its kind has changed.
    """
    own = {name.lower(): name for name in schema.names}
    slots = {slot.column: slot for slot in columns.slots}
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
        slot, words = slots[name], words_of(field.type)
        learned = kind_named(slot.kind)
        hashed = [field.name] if slot.hashed or slot.raw else []
        if (kind := kind_accepting(field.type, slot.role)) is not None and not slot.role:
            kind = kind_of(field, hashed)
        fields = {other.field for other in columns.slots if other.column == name}
        fits = kind is learned and fields <= set(kind.fields(field.type))
        if not fits or learned.rewritten(words, slot.type):
            now = f", a {kind.name} slot" if kind is not None else ""
            raise StatementError(
                f"Column {name} is {words}{now}; the model learned it as {slot.kind} ({slot.type}). CAST it in the query."
            )
    return found


def check_shared(slots: tuple[Slot, ...]) -> None:
    """Refuse SHARE with a slot whose rows cannot be used."""
    by_name = {slot.name: slot for slot in slots}
    for slot in slots:
        target = by_name.get(slot.source)
        if target is None:
            message = f"{SHARE} names {slot.source}, which is not learned from; share with a slot of the query."
            raise StatementError(message, subject=SHARE)
        if target.source != target.name:
            raise StatementError(
                f"{SHARE}: {slot.name} uses {target.name}, which itself uses {target.source}; name {target.source}.",
                subject=SHARE,
            )
        if slot is not target and not (kind_named(slot.kind).features and kind_named(target.kind).features):
            raise StatementError(
                f"{SHARE} expects categorical, multi-valued, weighted or sequence slots; got {slot.name} and {target.name}.",
                subject=SHARE,
            )

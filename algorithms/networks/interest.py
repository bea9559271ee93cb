"""Interest: the target of an example and the history it is compared with, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp

from ...platform.dependent import when
from ...platform.errors import OptionError, Subject
from ...platform.options import given_or, option
from ..blocks.histories import HISTORIES, History
from ..blocks.searched import SEARCHED
from ..inputs import Inputs, Layout
from ..layers.activations import ACTIVATIONS
from ..layers.history_search import HistorySearch, Query, as_they_are
from ..layers.lookups import gathered
from ..positions import places
from ..rates import interest_rate_of, spread_of
from .booster import LAYERS
from .deep import DeepOptions

PRODUCT, CATEGORY = "product", "category"
SEARCHES = (when("search", PRODUCT, CATEGORY),)
ATTENTION = 100  # number of attention's first layer, after the layers of any tower


@dataclass(frozen=True)
class InterestOptions(DeepOptions):
    """The options of networks that compare a history with a target."""

    target: tuple[str, ...] = option((), "the categorical slots of what is offered, such as (item, category)")
    history: tuple[str, ...] = option(
        (),
        "the arrays of what the user had, the newest last, a field for each of target; or one array of structs of them",
        role="sequence",
        length="length",
    )
    length: int = option(50, "elements of a history that are read, the last ones", minimum=1, maximum=10_000)
    search: str = option(
        "none",
        "which elements attention sees: none for all of them; product for those of the largest inner products with the target; "
        "category for the newest that have the target's value of `by`",
        choices=("none", PRODUCT, CATEGORY),
    )
    top: int = option(64, "elements that the search chooses", minimum=1, maximum=10_000, needs=SEARCHES)
    recent: int = option(32, "last elements that attention sees in any case", minimum=0, maximum=10_000, needs=SEARCHES)
    by: str | None = option(
        None, "the slot of target that elements are to agree with; by default the second", needs=(when("search", CATEGORY),)
    )
    dim: int = option(16, "elements of a feature's vector", minimum=1, maximum=1024)
    vector_learning_rate: float | None = option(
        None,
        "learning rate of the vectors; by default 0.2 over the root of the number of slots, at most 0.1",
        minimum=0,
        open_minimum=True,
        optimizer=True,
    )
    init_scale: float | None = option(
        None, "standard deviation of new vectors; by default 0.06 over the root of the number of slots", minimum=0
    )
    attention: tuple[int, ...] = option((64, 32), "units of each hidden layer of attention")
    attention_activation: tuple[str, ...] = option(
        ("dice",), "of attention's layers: one for all, or one for each", choices=tuple(ACTIVATIONS)
    )
    activation: tuple[str, ...] = option(
        ("dice",), "of the hidden layers: one for all, or one for each", choices=tuple(ACTIVATIONS), needs=LAYERS
    )

    @property
    def roles(self) -> Mapping[str, str]:
        """The roles of columns that differ from those declared; see platform/options."""
        return {} if self.search == "none" else {"history": SEARCHED}

    def adapted(self, layout: Layout) -> Self:
        """See `adapted` of platform/options."""
        return given_or(self, vector_learning_rate=interest_rate_of(layout), init_scale=spread_of(layout))


def unequal(of_history: Subject, target: tuple[str, ...], history: tuple[str, ...]) -> str:
    """Return what to do about a target and a history of different numbers of fields; some may be vectors, `slot:vectors`."""
    expected, names = f"{of_history} expects a field for each slot of target", {*target, *history}
    if any(name.rpartition(":")[0] in names for name in names):
        return (
            f"{expected}, vectors of ids too; target has {', '.join(target)}, and history {', '.join(history)}. Give both "
            "vectors, like WITH (vectors = (item IN images, clicked_items IN images))."
        )
    return (
        f"{expected}; target has {', '.join(target)}, and history {', '.join(history)}. Name both in one order, like "
        "target = (item, category), history = (clicked_items, clicked_categories)."
    )


class Interest(NamedTuple):
    """Where the fields of targets and histories stand.

    Attributes:
        lines: of `Inputs.scalar`, one for each field of the target.
        group: which of HISTORIES.
        fields: of the group, in the order of the target's.
        search: how the history is searched; None: it is seen whole.
    """

    lines: tuple[int, ...]
    group: int
    fields: tuple[int, ...]
    search: HistorySearch | None = None

    @classmethod
    def of(cls, algorithm: str, target: tuple[str, ...], history: tuple[str, ...], layout: Layout) -> Interest:
        """Find the slots that the options `target` and `history` of an algorithm name.

        Raises:
            OptionError: one is missing, names what is not a slot, or they have different numbers of fields.
        """
        of_target, of_history = (Subject("USING", algorithm, option) for option in ("target", "history"))
        for subject, names, example in ((of_target, target, "(item)"), (of_history, history, "(clicked_items)")):
            if not names:
                raise OptionError(f"{subject} expects one or more slots, like {subject.option} = {example}.", subject=subject)
        lines = places(target, layout.scalar, of_target, again=True)
        groups = [name for name, _ in layout.block(HISTORIES)]
        group = groups.index("history")
        slots = layout.block(HISTORIES)[group][1]
        fields = [place for name in history for place in fields_named(name, slots)]
        if len(fields) != len(lines):
            raise OptionError(unequal(of_history, target, history), subject=of_history)
        return cls(tuple(lines), group, tuple(fields))

    def searching(self, options: InterestOptions, algorithm: str, query: Query = as_they_are) -> Interest:
        """Return the same with the search that options name.

        Raises:
            OptionError: it would choose no fewer elements than there are, or `by` is no slot of the target.
        """
        if options.search == "none":
            return self
        subject = Subject("USING", algorithm, "top")
        if options.top + options.recent >= options.length:
            raise OptionError(
                f"{subject} and recent choose {options.top} + {options.recent} elements of the last {options.length}: expected "
                "fewer than length. Raise length, or leave search out: attention then sees all.",
                subject=subject,
            )
        by = 1
        if options.search == CATEGORY:
            subject = Subject("USING", algorithm, "by")
            names = [name.lower() for name in options.target]
            if options.by is None and len(names) < 2:
                message = (
                    f"{subject} is missing: search = 'category' compares the second slot of target, and it has one. Name one."
                )
                raise OptionError(message, subject=subject)
            if options.by is not None and options.by.lower() not in names:
                message = f"{subject} expects a slot of target, {', '.join(options.target)}; got {options.by!r}."
                raise OptionError(message, subject=subject)
            by = 1 if options.by is None else names.index(options.by.lower())
        search = HistorySearch(options.search, options.top, options.recent, by, self.lines, self.group, self.fields, query)
        return self._replace(search=search)

    def target(self, rows: jax.Array, inputs: Inputs) -> jax.Array:
        """Return the target's vectors side by side, float32[batch, fields * dim]."""
        own = gathered(rows, jnp.stack([inputs.scalar[line] for line in self.lines]))
        return own.reshape(own.shape[0], -1)

    def history(self, parameters: Mapping[str, jax.Array], inputs: Inputs) -> History:
        """Return the history, or what is chosen of it, its fields in the order of the target's."""
        found = inputs.block(HISTORIES)[self.group]
        found = found._replace(rows=found.rows[jnp.array(self.fields)])
        if self.search is None:
            return found
        rows = jnp.stack([inputs.scalar[line] for line in self.lines])
        vectors = parameters["vectors"]
        return self.search.in_jax(parameters, vectors, self.target(vectors, inputs), rows, found)


def fields_named(name: str, slots: tuple[str, ...]) -> list[int]:
    """Return the places of the slots that a column is: itself, or the fields of an array of structs."""
    lowered = name.lower()
    return [place for place, slot in enumerate(slots) if slot.lower() == lowered or slot.lower().startswith(f"{lowered}.")]


def check_attention(hidden: tuple[object, ...], algorithm: str) -> None:
    """Raise OptionError unless attention has a hidden layer, and every one a number of units."""
    if not hidden or any(not isinstance(units, int) or isinstance(units, bool) or units < 1 for units in hidden):
        subject = Subject("USING", algorithm, "attention")
        raise OptionError(
            f"{subject} expects whole numbers of units, one or more, like (64, 32); got {hidden}.", subject=subject
        )

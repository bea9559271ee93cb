"""Options that matter beside others alone, such as gamma beside loss = 'focal', or to some trainings alone, such as pooling to
those with arrays: how they are declared, told and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from .errors import OptionError, Position, Subject


class When(NamedTuple):
    """A part's option beside which another one has an effect; as text, how a statement gives it.

    Attributes:
        option: its name.
        values: what it is then; nothing: anything but NULL, 0, false and an empty list.
        least: elements that its list has then.
    """

    option: str
    values: tuple[str, ...]
    least: int

    def met(self, options: Any) -> bool:
        """Return whether it is so in a part's options."""
        value = getattr(options, self.option)
        if self.values:
            return value in self.values
        return len(value) >= self.least if isinstance(value, tuple) else bool(value)

    def __str__(self) -> str:
        if self.values:
            return f"{self.option} = {' or '.join(map(repr, self.values))}"
        return self.option if self.least == 1 else f"{self.least} names or more in {self.option}"


class Fact(NamedTuple):
    """What must be so of a training's algorithm or slots for an option to have an effect.

    Attributes:
        name: by which it is known whether it is so.
        text: what there must be, in words.
    """

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


BATCHES = Fact("batches", "an algorithm that learns batch by batch")
ROUNDS = Fact("rounds", "an algorithm that learns batch by batch, or by rounds over edges")
COUNTED = Fact("counted", "an algorithm that learns batch by batch, or an operator that counts features so")
COMMON = Fact("common", "an algorithm that computes once what rows have in common")
ARRAYS = Fact("arrays", "an array or map among the slots")
NUMBERS = Fact("numbers", "a continuous slot")
DRIFTS = Fact("drifts", "RELEASE WHEN with a drift")
CATEGORIES = Fact("categories", "a categorical slot")


class Placed(Protocol):
    """The value of an option in a statement."""

    @property
    def position(self) -> Position | None: ...


def when(option: str, *values: str, least: int = 1) -> When:
    """Declare what an option needs; see When."""
    return When(option, values, least)


def told(needs: Sequence[When], facts: Sequence[Fact] = ()) -> str:
    """Return what an option needs: one of several others, and all of some facts; empty for nothing."""
    return ", ".join((*((" or ".join(map(str, needs)),) if needs else ()), *map(str, facts)))


def check_effects(tried: Sequence[Any], given: Mapping[str, Placed], owner: Subject) -> None:
    """Refuse options of a statement without effect; those that a version hands on may be.

    Args:
        tried: a part's options, with defaults; several where TUNE tries them.
        given: what the statement gives.
        owner: what the options belong to.

    Raises:
        OptionError: none of what an option needs is there.
    """
    lowered = {name.lower(): value for name, value in given.items()}
    for field in dataclasses.fields(tried[0]):
        name, needs = field.name.removesuffix("_"), field.metadata["limits"].needs
        if name in lowered and needs and not any(need.met(options) for options in tried for need in needs):
            subject = owner._replace(option=name)
            message = f"{subject} has no effect without {told(needs)}. Give that, too, or leave {name} out."
            raise OptionError(message, lowered[name].position, subject)


def check_facts(options: Any, given: Collection[str], owner: Subject, facts: Collection[str]) -> None:
    """Refuse options that have no effect on a training.

    Args:
        options: of a part.
        given: the names of those that its statement gives.
        owner: what they belong to.
        facts: the names of those that are so.

    Raises:
        OptionError: what an option needs is not so.
    """
    for field in dataclasses.fields(options):
        name = field.name.removesuffix("_")
        for fact in field.metadata["limits"].facts if name in given else ():
            if fact.name not in facts:
                subject = owner._replace(option=name)
                raise OptionError(f"{subject} has no effect without {fact}. Leave {name} out.", subject=subject)

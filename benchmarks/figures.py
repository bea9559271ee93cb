"""Figures and the table that they are printed as."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A measured number.

    Attributes:
        name: what was measured.
        value: the number.
        unit: its unit.
        target: the bound it is held to, None where it only informs.
        at_least: the bound is a lower one.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = True

    @property
    def verdict(self) -> str:
        """`pass` or `miss`; empty without a target."""
        if self.target is None:
            return ""
        return "pass" if (self.value >= self.target if self.at_least else self.value <= self.target) else "miss"

    def line(self) -> str:
        """Return the figure as a line of the table."""
        bound = "" if self.target is None else f"{'>=' if self.at_least else '<='} {number(self.target)}"
        return f"{self.name:<64} {number(self.value):>12} {self.unit:<10} {bound:>12}  {self.verdict}".rstrip()


class Note(NamedTuple):
    """A line of the table that is no number."""

    text: str

    def line(self) -> str:
        return self.text


def heading(title: str) -> str:
    return f"\n{title:<64} {'measured':>12} {'':<10} {'target':>12}"


def number(value: float) -> str:
    """Write a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

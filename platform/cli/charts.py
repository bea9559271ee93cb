"""Charts as SVG that a page holds as text: they take its colours, fit its width, and show values under the pointer."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 28, 46
ROW = 24
NAMES = 150
MOST_MARKS = 60
UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Line:
    """A line of a chart.

    Attributes:
        x, y: points; one whose y is None is left out.
        color: the number of a colour of the page; None for a reference line.
        band: lowest and highest values around it.
        marked: its points are drawn, with their values under the pointer.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    color: int | None = 0
    band: tuple[Sequence[float], Sequence[float]] | None = None
    marked: bool = True


@dataclass(frozen=True)
class Bars:
    """Bars of one colour, one for each name of a chart, with the words that are shown for each."""

    name: str
    values: Sequence[float | None]
    texts: Sequence[str]
    color: int = 0


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers within a range, at most some."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * n for n in (1, 2, 2.5, 5, 10, 20) if (high - low) / (power * n) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(step * n, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Return a number as an axis shows it: 12k, 0.05."""
    for size, unit in UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def limits(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of an axis, which is not empty."""
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 0.5
    return low - room, high + room


def lines(drawn: Sequence[Line], x_title: str, y_title: str, square: tuple[float, float] | None = None) -> str:
    """Return a chart of lines; one with a square has its range on both axes."""
    points = [(x, y) for line in drawn for x, y in zip(line.x, line.y, strict=True) if y is not None]
    band = [value for line in drawn if line.band for side in line.band for value in side]
    x_low, x_high = square or (min(x for x, _ in points), max(x for x, _ in points))
    x_high = x_high if x_high > x_low else x_low + 1
    whole_numbers = all(float(x).is_integer() for x, _ in points)
    y_low, y_high = square or limits([*(y for _, y in points), *band])

    def across(x: float) -> float:
        return LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (min(max(y, y_low), y_high) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        *(
            f'<path class="grid" d="M{LEFT} {up(t):.1f}H{WIDTH - RIGHT}"/>{label(LEFT - 8, up(t) + 5, t, "end")}'
            for t in ticks(y_low, y_high)
        ),
        *(
            label(across(t), HEIGHT - BOTTOM + 20, t, "middle")
            for t in ticks(x_low, x_high)
            if t.is_integer() or not whole_numbers
        ),
        f'<text x="{LEFT - 8}" y="14" text-anchor="start" class="up">{html.escape(y_title)}</text>',
        f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" class="title">{html.escape(x_title)}</text>',
    ]
    for line in drawn:
        whole = [(across(x), up(y), x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
        if line.band:
            edges = [list(zip(map(across, line.x), map(up, side), strict=True)) for side in line.band]
            outline = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*edges[0], *reversed(edges[1])])
            parts.append(f'<path class="band c{line.color}" d="M{outline}Z"/>')
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, *_ in whole)
        kind = "line even" if line.color is None else f"line c{line.color}"
        parts.append(f'<path class="{kind}" d="M{path}"/>')
        if line.color is not None and line.marked:
            every = -(-len(whole) // MOST_MARKS)
            named = html.escape(f"{line.name}: " if len(drawn) > 1 else "")
            parts += [
                f'<circle class="c{line.color}" cx="{x:.1f}" cy="{y:.1f}" r="{3.5 if every == 1 else 2.5}">'
                f"<title>{named}{y_value:.5g} at {short(x_value)}</title></circle>"
                for x, y, x_value, y_value in whole[::every]
            ]
    return f"{legend(drawn)}{svg(HEIGHT, parts, y_title)}"


def bars(names: Sequence[str], groups: Sequence[Bars], unit: str) -> str:
    """Return a chart of bars across, for each name one of each group, which all begin at zero."""
    high = max((value for group in groups for value in group.values if value is not None), default=0) or 1.0
    thick = ROW / (len(groups) + 0.5)
    parts, height = [], ROW * len(names) + 34
    for tick in ticks(0, high, 4):
        x = NAMES + tick / high * (WIDTH - NAMES - RIGHT)
        parts.append(f'<path class="grid" d="M{x:.1f} 0V{height - 30}"/>{label(x, height - 12, tick, "middle")}')
    for number, name in enumerate(names):
        top = number * ROW
        shown = name if len(name) <= 20 else f"{name[:19]}…"
        parts.append(
            f'<text x="{NAMES - 8}" y="{top + ROW / 2 + 5:.1f}" text-anchor="end">{html.escape(shown)}'
            f"<title>{html.escape(name)}</title></text>"
        )
        for place, group in enumerate(groups):
            value = group.values[number]
            if value is None:
                continue
            width = max(value / high * (WIDTH - NAMES - RIGHT), 1)
            y = top + ROW * 0.1 + place * thick
            words = html.escape(f"{group.name}: {group.texts[number]}" if len(groups) > 1 else group.texts[number])
            parts.append(
                f'<rect class="c{group.color}" x="{NAMES}" y="{y:.1f}" width="{width:.1f}" height="{thick * 0.85:.1f}" rx="2">'
                f"<title>{words}</title></rect>"
            )
    return f"{legend(groups)}{svg(height, parts, unit)}"


def legend(drawn: Sequence[Line] | Sequence[Bars]) -> str:
    """Return the names of what a chart shows, where that is more than one thing."""
    named = {one.name: one.color for one in drawn if one.color is not None}
    if len(named) < 2:
        return ""
    items = (f'<span><i class="c{color}"></i>{html.escape(name)}</span>' for name, color in named.items())
    return f'<div class="legend">{"".join(items)}</div>'


def label(x: float, y: float, value: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{short(value)}</text>'


def svg(height: float, parts: Sequence[str], description: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(description, quote=True)}">'
    return f"{head}{''.join(parts)}</svg>"


def interval(share: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a share among n. Source: Wilson, JASA 22, 1927."""
    z = 1.959964
    middle, root = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return (middle - root) / (1 + z * z / n), (middle + root) / (1 + z * z / n)


def auc_interval(auc: float, positives: float, negatives: float) -> tuple[float, float]:
    """Return the 95 % interval of an AUC. Source: Hanley and McNeil, Radiology 143, 1982."""
    one, two = auc / (2 - auc), 2 * auc * auc / (1 + auc)
    spread = auc * (1 - auc) + (positives - 1) * (one - auc * auc) + (negatives - 1) * (two - auc * auc)
    half = 1.959964 * math.sqrt(max(spread, 0) / (positives * negatives))
    return max(auc - half, 0), min(auc + half, 1)


def merged(parts: Sequence[tuple[float, float, int]], most: int) -> np.ndarray:
    """Return parts of predictions, in order, as at most some of about equal size: mean prediction, mean label, examples."""
    found = np.array(parts, float).reshape(-1, 3)
    weights = found[:, 2:]
    part = np.minimum(((np.cumsum(weights) - weights[:, 0] / 2) / weights.sum() * most).astype(int), most - 1)
    sums = np.stack(
        [np.bincount(part, column, most) for column in (found * np.hstack([weights, weights, np.ones_like(weights)])).T], 1
    )
    sums = sums[sums[:, 2] > 0]
    return np.hstack([sums[:, :2] / sums[:, 2:], sums[:, 2:]])

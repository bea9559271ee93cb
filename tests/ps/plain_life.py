"""A plain Python model of tables whose rows are admitted and expire: dicts, one key at a time, from the definitions alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

ALPHA, BETA = 0.1, 1.0
GOLDEN, LOW = 0x9E3779B9, 0xFFFFFFFF


@dataclass
class PlainRow:
    count: int = 0
    updates: int = 0
    shows: int = 0
    clicks: int = 0
    last_seen: int = 0
    recent_shows: float = 0.0
    recent_clicks: float = 0.0
    z: float = 0.0
    n: float = 0.0

    @property
    def w(self) -> float:
        return -self.z / ((BETA + math.sqrt(self.n)) / ALPHA)


@dataclass(frozen=True)
class Event:
    """One key in one push."""

    key: int
    slot: int
    count: int
    clicks: int
    gradient: float


@dataclass
class Plain:
    """One table.

    Attributes:
        half_life: of recent shows and clicks; infinity: they do not fade.
        counting, within: whether occurrences before admission are counted, and the length of a counting period.
        earns: slot -> bool, whether a feature that is not admitted keeps what it has earned.
        admits: (event, row as the push leaves it, base rate, number of the batch in this version's training) -> bool.
        expires: (slot, row with recent counts brought up to now, idle seconds, base rate) -> bool.
    """

    half_life: float = math.inf
    counting: bool = False
    within: float = math.inf
    earns: Callable[[int], bool] = lambda slot: False
    admits: Callable[[Event, PlainRow, float, int], bool] = lambda event, row, base, batch: True
    expires: Callable[[int, PlainRow, int, float], bool] = lambda slot, row, idle, base: False
    now: int = 0
    examples: int = 0
    positives: int = 0
    rows: dict[int, PlainRow] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    counts: dict[int, dict[int, int]] = field(default_factory=dict)
    trials: dict[int, PlainRow] = field(default_factory=dict)

    @property
    def base(self) -> float:
        return self.positives / max(self.examples, 1)

    def faded(self, row: PlainRow) -> PlainRow:
        factor = 0.5 ** ((self.now - row.last_seen) / self.half_life)
        return PlainRow(**{**vars(row), "recent_shows": row.recent_shows * factor, "recent_clicks": row.recent_clicks * factor})

    def living(self) -> dict[int, PlainRow]:
        """Return the rows that have not ended, as of now."""
        rows = {key: self.faded(row) for key, row in self.rows.items()}
        return {
            key: row for key, row in rows.items() if not self.expires(self.slots[key], row, self.now - row.last_seen, self.base)
        }

    def push(self, events: list[Event], time: int, batch: int, examples: int, positives: int) -> None:
        self.now = max(self.now, time)
        self.examples, self.positives = self.examples + examples, self.positives + positives
        period = int(self.now // self.within)
        for event in events:
            old = self.rows.get(event.key)
            row = self.faded(old) if old else None
            if row and self.expires(event.slot, row, self.now - row.last_seen, self.base):
                row = None
                del self.rows[event.key]
            seen = self.counts.setdefault(event.key, {})
            known = sum(count for when, count in seen.items() if when >= period - 1) if self.counting else 0
            trial = self.trials.pop(event.key, None)
            trial = self.faded(trial) if trial else None
            if trial and self.expires(event.slot, trial, self.now - trial.last_seen, self.base):
                trial = None
            if trial and self.counting:
                trial.count = known
            new = self.updated(row or trial or PlainRow(count=known), event)
            if row is None and not self.admits(event, new, self.base, batch):
                seen[period] = seen.get(period, 0) + event.count
                if self.earns(event.slot):
                    self.trials[event.key] = new
                continue
            self.counts.pop(event.key)
            self.rows[event.key], self.slots[event.key] = new, event.slot

    def updated(self, row: PlainRow, event: Event) -> PlainRow:
        n = row.n + event.gradient**2
        return PlainRow(
            count=row.count + event.count,
            updates=row.updates + 1,
            shows=row.shows + event.count,
            clicks=row.clicks + event.clicks,
            last_seen=self.now,
            recent_shows=row.recent_shows + event.count,
            recent_clicks=row.recent_clicks + event.clicks,
            z=row.z + event.gradient - (math.sqrt(n) - math.sqrt(row.n)) / ALPHA * row.w,
            n=n,
        )


def utility(row: PlainRow, recent: bool) -> float:
    return math.log((row.recent_shows if recent else row.shows) + 1) * abs(row.w)


def information(row: PlainRow, base: float, recent: bool) -> float:
    shows, clicks = (row.recent_shows, row.recent_clicks) if recent else (row.shows, row.clicks)
    if not 0 < base < 1:
        return 0.0
    p = (clicks + base) / (shows + 1)
    return shows * (p * math.log(p / base) + (1 - p) * math.log((1 - p) / (1 - base)))


def drawn(seed: int, key: int, batch: int) -> float:
    """Return the number in [0, 1) that a batch of the first split and pass draws for a key."""
    state = GOLDEN
    for value in (seed, 0, 0, batch):
        state = (mixed(state ^ value) + GOLDEN) & LOW
    return (mixed((key & LOW) ^ mixed((key >> 32) ^ state)) >> 8) / (1 << 24)


def mixed(bits: int) -> int:
    """Return a 32-bit integer, mixed.

    Source: the finalizer of MurmurHash3 (Appleby, 2011).
    """
    bits = ((bits ^ (bits >> 16)) * 0x85EBCA6B) & LOW
    bits = ((bits ^ (bits >> 13)) * 0xC2B2AE35) & LOW
    return bits ^ (bits >> 16)

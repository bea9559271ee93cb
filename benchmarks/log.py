"""Make a log like display advertising's: 13 integer and 26 string columns, a few of them with millions of values.

Ranks of each column follow a Zipf law. The label is drawn from a logistic model that knows only some columns and only part of
their values, so a learner has to tell them from noise, and in which some pairs of columns interact. Who knew the model would
reach an AUC of 0.80. A part of 100,000 rows depends on the seed and its number only.

    python -m benchmarks.log FOLDER [TRAIN TEST SEED], 1000000 200000 7 by default
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

PART_ROWS = 100_000
TEST_FIRST = 1 << 20
BASE_RATE, BEST_AUC = 0.2, 0.8
INTEGERS, STRINGS, PAIRS = 13, 26, 14
PAIRED_VALUES = 1000  # the most values of a column that interacts: others have too few rows of each pair of values
PAIRED_SHARE = 0.3  # of the scores' variance
VW_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM"
Floats = NDArray[np.float64]


class Column(NamedTuple):
    """A feature column: ranks below `cardinality`, density 1 / (rank + 1)^exponent, deviation of weights, share of NULLs."""

    name: str
    number: int
    cardinality: int
    exponent: float
    strength: float
    nulls: float


def columns() -> list[Column]:
    """Describe the columns; cardinalities of strings grow from four to three million."""
    generator = np.random.default_rng(0)
    names = [*(f"I{i + 1}" for i in range(INTEGERS)), *(f"C{i + 1}" for i in range(STRINGS))]
    sizes = [*generator.integers(20, 500, INTEGERS), *np.geomspace(4, 3_000_000, STRINGS).round()]
    nulls = generator.choice([0.0, 0.0, 0.05, 0.3], len(names))
    strengths = generator.choice([0.0, 0.5, 1.0], len(names))
    exponents = generator.uniform(0.9, 1.4, len(names))
    described = zip(names, sizes, exponents, strengths, nulls, strict=True)
    return [Column(n, i, int(k), float(e), float(s), float(z)) for i, (n, k, e, s, z) in enumerate(described)]


def pairs() -> list[tuple[Column, Column]]:
    """Return the pairs of columns that interact."""
    generator = np.random.default_rng(1)
    few = [column for column in columns() if column.cardinality <= PAIRED_VALUES]
    chosen = [generator.choice(len(few), 2, replace=False) for _ in range(PAIRS)]
    return [(few[one], few[other]) for one, other in chosen]


def mixed(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return pseudo-random bits of numbers below 2^32. Source: Steele, Lea and Flood, OOPSLA 2014 (SplitMix64)."""
    z = (numbers + np.uint64(seed << 32) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return bits


def ranks(column: Column, rows: int, generator: np.random.Generator) -> NDArray[np.uint64]:
    """Draw ranks by inversion of the integral of their density."""
    power = 1 - column.exponent
    drawn = (1 + generator.random(rows) * ((column.cardinality + 1) ** power - 1)) ** (1 / power) - 1
    found: NDArray[np.uint64] = np.minimum(drawn, column.cardinality - 1).astype(np.uint64)
    return found


def weights(column: Column, drawn: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the true weights of values, zero for three of four."""
    bits = mixed(drawn, 1000 + column.number)
    symmetric = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
    return np.where(bits & np.uint64(3) == 0, symmetric * np.sqrt(12) * column.strength, 0.0)


def vectors(column: Column, drawn: NDArray[np.uint64]) -> Floats:
    """Return the true vectors of values, of four numbers from -1 to 1; the products of two columns' are their interaction."""
    return mixed(drawn, 2000 + column.number).view(np.uint16).reshape(-1, 4) / 32767.5 - 1


def values(column: Column, drawn: NDArray[np.uint64], null: NDArray[np.bool_]) -> pa.Array:
    """Return a column's values: small integers, or words."""
    if column.number < INTEGERS:
        return pa.array(drawn.astype(np.int32), mask=null)
    distinct, codes = np.unique(drawn, return_inverse=True)
    words = [f"{bits:08x}" for bits in (mixed(distinct, column.number) >> np.uint64(32)).tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=null), pa.array(words)).dictionary_decode()


class Truth(NamedTuple):
    """The factors of columns and of pairs of columns in the scores of labels, and a constant."""

    linear: float
    paired: float
    bias: float

    def clicked(self, linear: Floats, paired: Floats) -> Floats:
        """Return the probabilities of a click."""
        return np.asarray(expit(self.linear * linear + self.paired * paired + self.bias))


def scores(seed: int, number: int, rows: int) -> tuple[Floats, Floats, dict[str, pa.Array]]:
    """Return what columns and pairs of columns give to the scores of a part's rows, and its feature columns."""
    generator = np.random.default_rng([seed, number])
    linear, paired, factors, made = np.zeros(rows), np.zeros(rows), {}, {}
    for column in columns():
        drawn = ranks(column, rows, generator)
        null = generator.random(rows) < column.nulls
        linear += np.where(null, 0.0, weights(column, drawn))
        factors[column] = np.where(null[:, None], 0.0, vectors(column, drawn))
        made[column.name] = values(column, drawn, null)
    for one, other in pairs():
        paired += np.einsum("rd,rd->r", factors[one], factors[other])
    return linear, paired, made


def calibration(seed: int) -> Truth:
    """Return the truth that gives the first part its base rate, its best AUC and its share of pairs."""
    linear, paired, _ = scores(seed, 0, PART_ROWS)
    one, other = (1 - PAIRED_SHARE) ** 0.5 / linear.std(), PAIRED_SHARE**0.5 / paired.std()

    def truth(scale: float) -> Truth:
        def rate(bias: float) -> float:
            return float(Truth(scale * one, scale * other, bias).clicked(linear, paired).mean())

        return Truth(scale * one, scale * other, brentq(lambda bias: rate(bias) - BASE_RATE, -50, 50))

    return truth(brentq(lambda scale: expected_auc(truth(scale).clicked(linear, paired)) - BEST_AUC, 0.1, 10))


def expected_auc(probabilities: Floats) -> float:
    """Return the AUC that who knows the probabilities can expect."""
    clicks = np.sort(probabilities)
    others = 1 - clicks
    below = np.cumsum(others) - others / 2
    return float(clicks @ below / (clicks.sum() * others.sum()))


def parts(seed: int, first: int, rows: int, truth: Truth) -> Iterator[pa.Table]:
    """Yield the rows of a log, a part at a time, parts numbered from `first`."""
    for number, start in enumerate(range(0, rows, PART_ROWS), first):
        size = min(PART_ROWS, rows - start)
        linear, paired, made = scores(seed, number, size)
        clicks = np.random.default_rng([seed, number, 1]).random(size) < truth.clicked(linear, paired)
        seconds = 1_700_000_000 + np.arange(start, start + size) // 20
        times = pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC"))
        yield pa.table({"label": pa.array(clicks.astype(np.int8)), "ts": times, **made})


def vw_lines(table: pa.Table) -> bytes:
    """Return a part as Vowpal Wabbit's text: a namespace of one letter for each column, and `null` for NULL."""
    label = pc.if_else(pc.equal(table["label"], 1), "1", "-1")
    names = [name for name in table.column_names if name not in ("label", "ts")]
    texts = [pc.fill_null(table[name].cast(pa.string()), "null") for name in names]
    words = [pc.binary_join_element_wise(f"|{letter}", text, " ") for letter, text in zip(VW_NAMES, texts, strict=False)]
    lines = pc.binary_join_element_wise(label, *words, " ")
    return ("\n".join(lines.to_pylist()) + "\n").encode()


def write(tables: Iterator[pa.Table], parquet: Path, vw: BinaryIO) -> None:
    """Write parts as Parquet, a row group each, and as Vowpal Wabbit's text."""
    first = next(tables)
    with pq.ParquetWriter(parquet, first.schema, compression="zstd") as writer:
        for table in (first, *tables):
            writer.write_table(table, row_group_size=PART_ROWS)
            vw.write(vw_lines(table))


def make(folder: Path, sizes: Mapping[str, int], seed: int) -> None:
    """Write NAME.parquet and NAME.vw of so many rows; names that begin with `test` share no rows with the others."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = calibration(seed)
    for name, rows in sizes.items():
        first = TEST_FIRST if name.startswith("test") else 0
        with (folder / f"{name}.vw").open("wb") as vw:
            write(parts(seed, first, rows, truth), folder / f"{name}.parquet", vw)


def made(folder: str, train: int, test: int, seed: int) -> None:
    """Make a log; as a child, so that its memory is not that of the processes that are measured later."""
    make(Path(folder), {"train": train, "test": test}, seed)


if __name__ == "__main__":
    train, test, seed = map(int, (*sys.argv[2:], *("1000000", "200000", "7")[len(sys.argv) - 2 :]))
    made(sys.argv[1], train, test, seed)

"""Write docs/sql.md from the declarations of statements, functions, algorithms, operators and options.

Usage: python docs/reference.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from xpsql.algorithms import ALGORITHMS
from xpsql.platform.engines.duckdb.translation.functions import FUNCTIONS as SPARK_FUNCTIONS
from xpsql.platform.engines.spark_sql.statements import FORMATS, RUNS
from xpsql.platform.input.streams.sources import SOURCES
from xpsql.platform.models.feature_info import SCHEMA as FEATURE_INFO_COLUMNS
from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.lifetimes import feature_value
from xpsql.platform.options import Part, describe
from xpsql.platform.sql import history_calls
from xpsql.platform.sql.functions import FUNCTIONS as TABLE_FUNCTIONS
from xpsql.platform.sql.statements import STATEMENTS
from xpsql.platform.sql.statements.listing import shown
from xpsql.platform.sql.streams import GRAMMAR as STREAMS
from xpsql.platform.training.clauses import CLAUSES
from xpsql.platform.training.metrics import METRICS, metric_names
from xpsql.platform.training.plan import Settings
from xpsql.platform.udf import FUNCTIONS
from xpsql.warehouse.trainings.progress import progress_columns

TARGET = Path(__file__).with_name("sql.md")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


HEAD = f"""\
# SQL reference

`docs/reference.py` writes this file from the declarations in the code; a test holds the two equal.

One dialect: Spark SQL and the statements below. A script is statements separated by `;`. What is not a statement of xpsql goes
to the engine: {RUNS}.
`${{name}}` is replaced by the value given with `-D name=value`; a name without value is an error, and `$${{name}}` stands for
`${{name}}` itself. `${{name:-default}}` is the default where the name has no value or an empty one; a default has no braces and
may be empty. Keywords are compared without case, names are quoted with backticks, `--` and
`/* */` are comments. An error carries line and column.

Files are read as Spark SQL reads them: ``SELECT * FROM parquet.`folder` ``, or
`CREATE TEMPORARY VIEW v USING csv OPTIONS (path 'file.csv', header 'true', inferSchema 'true', nullValue 'NA')`.
Formats: {", ".join(FORMATS)}. `CREATE TABLE ... AS` makes tables of the warehouse, which are folders of Parquet files.

Other options of CSV files, with Spark's defaults: `sep` or `delimiter` (`,`), `quote` (`"`), `escape` (`\\`), `comment` (none),
`multiLine` (`false`: a quoted value has no line break), `encoding` (UTF-8, ISO-8859-1), `ignoreLeadingWhiteSpace` and
`ignoreTrailingWhiteSpace` (`false`). JSON files take `multiLine`, Parquet files `mergeSchema`. Files may be compressed by gzip
or zstd. Folders named `column=value` add columns, after those of the files and in the order of the path.

The embedded engine reads what Spark reads, with the same values, but for these: quotes that are doubled inside a quoted value
while `escape` is another character are refused, since that file was written with `escape '"'`; so are a line break in a quoted
value without `multiLine`, files of bzip2, other encodings, and folders of one table that name their columns in other letters.
A number in a JSON column of texts is the text that CAST gives it (`1e7` and `10000000.0` are `1.0E7`), in files, `from_json`,
streams and requests alike; Spark's reader of JSON files keeps it as it is written. windows that overlap, as of
`window(time, '10 minutes', '5 minutes')`, are not called for in WHERE: filter them in a SELECT around it,
`convert_timezone` gives a TIMESTAMP, and the difference of two dates is an interval that can be compared, cast to INT, and
asked for its DAY, but has no text and goes into no table. Patterns of times take y, M, L, d, D, H, h, k, K, m, s, S, a,
G, g, X, x, Z, z, O, v and VV; those that are written also E, F, Q and q, and those that are read no names of zones (zzzz).
"""

CLAUSE_TAIL = """\
All columns of the query that no clause names are slots: features are made of them. `ORDER BY` in the query is the order of
learning; with one worker it is exact. `CONTINUE` takes every clause but PUBLISH and RETAIN from the version that it continues,
unless it is given;
`USING` and `WITH` change only the options that they name, and the algorithm stays. It begins at the version's weights, whatever
options change, and reads its rows once, unless it or the version's statement says `passes`. How often `TRAIN` would read its
rows `EXPLAIN` tells: `passes: 9 (chosen for 120,000 rows)`.

A query that is a scan of a table or of Parquet files, with row-wise expressions and filters, is read in place. Any other query
is run once, and its result is staged as Parquet beside the version until the training ends.
"""

STREAMS_HEAD = """\
After FROM in the query of TRAIN and CONTINUE, a relation that grows: CONTINUE learns what has arrived since the version that
it continues. The query is row-wise: expressions and filters over one stream. See [streams.md](streams.md).
"""

STATISTICS = """\
The columns of ML.WEIGHTS after the weights:

```
count        occurrences; with admit (min_count = n) also before admission.
updates      pushes since the row began, refused ones too.
last_seen    newest TIME of the training when the row was last pushed.
shows        occurrences since the row began: a value that is in an example twice counts twice.
clicks       occurrences in examples whose label is above 0.
```
"""

OPERATORS_HEAD = """\
A push brings, for each key of a batch, the gradient of the sum of the examples' losses, each times its WEIGHT. Then

1. the row is read: what decays with TIME has decayed up to the newest TIME pushed, this batch's included;
2. operators change the gradient, in the order written, and the optimizer moves the weights;
3. operators that act on weights (`safety`, `regularize`, `decay`) do so in reverse order: the first one has the last word.

Every table of an algorithm, such as the weights and the vectors of `fm`, has the operators named, and the optimizer where one
is named; layers of a network keep their own, and their gradients are divided by the number of the batch's examples whose WEIGHT
is above 0. The intercept is a row like others, but for `admit` and `expire`. CONTINUE starts from the rows as of the
version's newest TIME.

In the order of `SHOW OPERATORS`; optimizers, which end a chain, come last.
"""

SLOTS = """\
## Columns and slots

| type | kind of slot | key of a feature |
|---|---|---|
| string, integer, boolean, date | categorical | `feature_key(slot, value)`; NULL has a key too, unless `nulls = 'absent'` |
| bigint, named in `hashed` | categorical | `xxhash64(slot, id)` |
| bigint, named in `raw` | categorical | the id, whatever its slot; NULL has `xxhash64(slot)` |
| float, double, decimal | continuous | `feature_key(slot, NULL)`, one for the slot; the value is standardised; NULL is absent |
| array of categories | multi-valued | `feature_key(slot, element)`; NULL is absent |
| map from categories to numbers | weighted | `feature_key(slot, key)`, times the number |
| such an array named by an option, like `history` | sequence | `feature_key(slot, element)`; NULL is absent, keeps its place |
| array of vectors that an option names | vector_array | none: it has no rows; a NULL vector is absent, keeps its place |
| array of floats, doubles or decimals | vector | `xxhash64(slot, i)` for element i, a BIGINT from 0 |

A value is standardised by mean and deviation of all values so far, its batch included, and kept within 8 deviations.
Numbers of maps and vectors are taken as they are.

Other types need a `CAST`, or `IGNORE`. The order of columns does not matter, their names and kinds do: a later query must
return the columns of the first one, and may return more.
"""

RESULTS = {
    "PREDICT": "Columns: the input's, and `predicted_<label>`.",
    "EVALUATE": "Columns: examples, the metrics of the table below, and measured_on: query where data are given, else "
    "progressive (each example was predicted before it was learned from) or training (after; of models that learn from all "
    "rows at once); gauc only where data are given and the model has a GROUP column. Where the model has several labels, each "
    "has a row, named in the column `label`. With ITEMS: k, recall, ndcg, hit_rate, coverage, examples, and missing, how many "
    "items were taken that ITEMS lacks. auc counts equal predictions one half; beyond 65,536 examples predictions are equal "
    "whose logits are in one of 65,536 bins.\n\n"
    + table(("metric", "what it is"), ((f"`{metric.name}`", metric.help) for metric in METRICS)),
    "TRAINING_INFO": "Columns: "
    + ", ".join(progress_columns(metric_names(grouped=True))).replace("validation,", "validation, measured_on,")
    + ".",
    "FEATURE_INFO": f"Columns: {', '.join(FEATURE_INFO_COLUMNS.names)}.",
}


def fenced(text: str) -> str:
    return f"```\n{text}\n```\n"


def options(declared: type[Any]) -> str:
    """Return the table of the options that a dataclass declares."""
    rows = [(f"`{o.name}`", o.type, f"`{shown(o.default)}`", o.range, o.help) for o in describe(declared)]
    return table(("option", "type", "default", "range", "meaning"), rows) if rows else "It has no options.\n"


def part(described: Part[Any, Any]) -> Iterator[str]:
    """Give the section of an algorithm or operator: its docstring and its options."""
    yield f"### {described.name}\n"
    yield inspect.cleandoc(described.make.__doc__ or "") + "\n"
    yield options(described.options)


def clauses() -> Iterator[str]:
    """Give the section on the clauses of TRAIN and CONTINUE."""
    yield "## Clauses of TRAIN and CONTINUE\n"
    yield table(("clause", "meaning"), [(f"`{clause}`", clause.help) for clause in CLAUSES])
    yield CLAUSE_TAIL
    yield "### Settings of WITH\n"
    yield options(Settings)


def statements() -> Iterator[str]:
    yield "## Statements\n"
    for statement in STATEMENTS:
        yield f"### {statement.name}\n"
        yield statement.help + "\n"
        yield fenced(statement.grammar)


def streams() -> Iterator[str]:
    yield "## Streams\n"
    yield STREAMS_HEAD
    yield fenced(STREAMS)
    for source in SOURCES:
        yield f"### {source.name}\n"
        yield source.help + "\n"
        yield options(source.options)


def table_functions() -> Iterator[str]:
    yield "## Table functions\n"
    yield "They are used like tables in FROM: they can be joined, filtered, inserted, and nested.\n"
    for function in TABLE_FUNCTIONS:
        yield f"### ML.{function.name}\n"
        yield function.help + "\n"
        yield fenced(function.grammar)
        if function.name in RESULTS:
            yield RESULTS[function.name] + "\n"
    yield STATISTICS
    yield fenced(inspect.cleandoc((feature_value.__doc__ or "").split("\n\n", 2)[1]))


def functions() -> Iterator[str]:
    yield "## Functions\n"
    yield "Beside the functions of Spark SQL:\n"
    yield table(("function", "meaning"), [(f"`{f.name}{f.signature}`", f.help) for f in FUNCTIONS])
    yield "### HISTORY\n"
    yield history_calls.HELP + " See [histories.md](histories.md).\n"
    yield fenced(history_calls.GRAMMAR)
    yield "### Spark SQL's\n"
    yield "Functions of Spark SQL that the embedded engine runs, with the values and types of Spark; any other is an error."
    yield "Each is held to a live Spark by a table of tests. The list grows only by what daily logs need; the Spark engine runs"
    yield "all that Spark has.\n"
    yield fill(", ".join(sorted(SPARK_FUNCTIONS)), 120) + "\n"


def reference() -> str:
    """Return the text of docs/sql.md."""
    pieces = [HEAD, *statements(), *clauses(), *streams(), SLOTS, *table_functions(), *functions()]
    pieces.append("## Algorithms\n")
    pieces += [text for algorithm in ALGORITHMS for text in part(algorithm)]
    pieces.append("## Operators\n")
    pieces.append(OPERATORS_HEAD)
    pieces += [text for operator in OPERATORS for text in part(operator)]
    return "\n".join(pieces)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")

"""Failures of DuckDB as StatementErrors: our words, and the place in the text that was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ...errors import NO_MEMORY, StatementError
from ...system import has_folder, of_system
from ..spark_sql.bad_values import bad_value
from ..spark_sql.lexer import find_word
from ..unknown_names import absent, gone, valueless

COLUMN_MISSING = re.compile(
    r'(?:Referenced column|does not have a column named) "(?P<name>[^"]+)"'
    r'|Column "(?P<own>[^"]+)" referenced that exists in the SELECT clause'
    r'|Alias with name "+(?P<grouped>[^"]+)"+ exists, but aliases cannot be used'
)
OF_TABLE = re.compile(r'"(?P<table>[^"]+)" does not have a column named')
TABLE_MISSING = re.compile(r'Referenced table "(?P<name>[^"]+)" not found')
AMBIGUOUS = re.compile(r'Ambiguous reference to column name "(?P<name>[^"]+)"')
UNGROUPED = re.compile(r'column "?(?P<name>[^" ]+)"? must appear in the GROUP BY')
MACRO = re.compile(r"Macro \w+\(\) does not support the supplied arguments.*Candidate macros?:(?P<forms>.*)", re.DOTALL)
BAD_VALUE = re.compile(
    r"the text '(?P<text>.*)' is no (?P<word>integer|boolean|date|timestamp|double|decimal); use TRY_CAST"
    r"|Could not convert string (?:'(?P<value>.*)'|\"(?P<decimal>.*)\") to (?P<kind>\w+(?:\([\d,]+\))?)"
    r"|with value (?P<number>\S+) can't be cast because the value is out of range for the destination type (?P<narrow>\w+)",
    re.DOTALL,
)
NO_UTF8 = re.compile(r"not valid UTF-?8|invalid UTF-?8|invalid unicode|not utf-8 encoded|blob to string", re.IGNORECASE)
CSV_LINE = re.compile(r"CSV Error on Line: (?P<line>\d+)")
OF_FILE = re.compile(r'\n  file ?= ?(?P<csv>.*?)\n|file "(?P<file>[^"]*)"', re.IGNORECASE)
CONVERT = "iconv -f WINDOWS-1252 -t UTF-8 old > new"
NO_TEXT = "Write them again in UTF-8, or as BINARY, and decode that in the query: decode(column, 'ISO-8859-1')."
LACKS = re.compile(
    r'column "(?P<column>[^"]*)" was read from the original file "(?P<first>[^"]*)", '
    r'but could not be found in file "(?P<file>[^"]*)"'
)
DIFFERS = re.compile(
    r'In file "(?P<file>[^"]*)" the column "(?P<column>[^"]*)" has type (?P<own>.+), '
    r"but we are trying to read it as type (?P<first>.+)\.\n"
)
USING_MISSING = re.compile(r'Column "(?P<name>[^"]*)" does not exist on (?P<side>left|right) side of join')
HINTS = re.compile(r"\n(?:Possible (?:fixes|solutions?)|If you are trying|This can happen|Try setting).*", re.DOTALL)
LONGEST = 600
NO_ARRAY = re.compile(
    r"Invalid LIST argument during lambda function binding|can't be cast to the destination type \w+\[\]", re.IGNORECASE
)
NO_FUNCTION = re.compile(r"No function matches the given name and argument types '(?P<name>[^'(]+)\((?P<types>[^']*)\)'")
CANDIDATES = re.compile(r"Candidate tables?:.*", re.DOTALL)
BROKEN_LINE = "does not support null_padding in conjunction with quoted new lines"
BROKEN_JSON = re.compile(
    r"(?:(?P<malformed>Malformed JSON)|JSON transform error(?=.*: Expected OBJECT)) "
    r'in file "(?P<file>[^"]*)", .*?in \S+ (?P<line>\d+): (?P<why>.*)'
)
PREFIX = re.compile(r"^(?:[A-Z][A-Za-z/ -]*? (?:Error|Exception): )+")
EXCERPT = re.compile(r"\s*\nLINE \d+:.*", re.DOTALL)
SETTINGS = re.compile(r"\n  file = (?P<file>.*?)\n.*", re.DOTALL)
ADVICE = re.compile(r'\s*Did you mean "[^"]*"\?')
LIKES = {"~~": "LIKE", "!~~": "LIKE"}
TYPES = {"INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT", "VARCHAR": "STRING", "BLOB": "BINARY",
         "INTEGER": "INT"}  # fmt: skip
TYPE = re.compile(rf"\b({'|'.join(TYPES)})\b")
GONE = re.compile(r'No files found that match the pattern "(?P<sought>[^"]*)"|Cannot open file "(?P<file>[^"]*)": No such file')
NO_VALUE = re.compile(r"Values were not provided for the following parameters: (?P<name>\w+)")
GENERATED = re.compile(r'"?xpsql_relation_\d+"?\.?')


@contextmanager
def explained(text: str, columns: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
    """Turn failures of DuckDB inside the block into StatementErrors about `text`.

    Args:
        text: what the user wrote, or nothing where the failure is of no text.
        columns: tells the columns that a query of the text can name.
    """
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.OutOfMemoryException, pa.ArrowMemoryError) as error:
        raise StatementError(NO_MEMORY) from error
    except OSError as error:
        raise (explain(str(error), text, columns) if has_folder() else of_system(error)) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise explain(str(error), text, columns) from error


def explain(message: str, text: str, columns: Callable[[], Iterable[str]]) -> StatementError:
    """Return a failure of DuckDB in our words."""
    if NO_UTF8.search(message):
        return StatementError(no_utf8(message))
    if found := LACKS.search(message):
        lacks = f"{found['file']} has no column {found['column']}, which {found['first']} has"
        return StatementError(f"{lacks}. Read them with OPTIONS (mergeSchema 'true'), which makes it NULL, or write it again.")
    if found := DIFFERS.search(message):
        own, first = (TYPE.sub(lambda kind: TYPES[kind[0]], found[name]) for name in ("own", "first"))
        differs = f"Column {found['column']} of {found['file']} is {own}, and the first file has {first}"
        return StatementError(f"{differs}. Write the files with one type, or read each by itself and CAST the column.")
    if found := COLUMN_MISSING.search(message):
        name = found["name"] or found["own"] or found["grouped"]
        if (of := OF_TABLE.search(message)) is not None and name.lower() in {column.lower() for column in columns()}:
            return StatementError(f"{of['table']} has no column {name}; another table of the query has.", find_word(text, name))
        return absent("column", name, {*columns()}, find_word(text, name))
    if found := TABLE_MISSING.search(message):
        return absent("table or alias", found["name"], tables_near(message), find_word(text, found["name"]))
    if found := USING_MISSING.search(message):
        near = f"the tables on the {found['side']} of JOIN ... USING have no column {found['name']}"
        return StatementError(
            f"{near[0].upper()}{near[1:]}. Name columns that both sides have, or write ON.", find_word(text, found["name"])
        )
    if found := AMBIGUOUS.search(message):
        message = f"Column {found['name']} is in several tables of the query; say which one with the table's name before it."
        return StatementError(message, find_word(text, found["name"]))
    if found := UNGROUPED.search(message):
        message = f"Column {found['name']} is neither grouped nor aggregated; add it to GROUP BY, or aggregate it."
        return StatementError(message, find_word(text, found["name"]))
    if found := MACRO.search(message):
        forms = [form.strip().removeprefix("spark_") for form in found["forms"].strip().splitlines()]
        name = forms[0].partition("(")[0]
        return StatementError(f"{name} does not take these arguments. Write {' or '.join(forms)}.", find_word(text, name))
    if found := BAD_VALUE.search(message):
        value = next(one for one in found.group("text", "value", "decimal", "number") if one is not None)
        kind = (found["word"] or found["kind"] or found["narrow"]).upper()
        return StatementError(bad_value(value, "INT" if kind == "INTEGER" else TYPES.get(kind, kind)))
    if found := NO_FUNCTION.search(message):
        name, types = LIKES.get(found["name"], found["name"]), TYPE.sub(lambda kind: TYPES[kind[0]], found["types"])
        types = types.replace(" WITH TIME ZONE", "").replace("STRING_LITERAL", "STRING")
        return StatementError(f"{name} does not take ({types}). Use CAST.", find_word(text, name))
    if found := NO_VALUE.search(message):
        return StatementError(valueless(found["name"]), find_word(text, found["name"]))
    if NO_ARRAY.search(message):
        return StatementError("A function that takes an array got something else. Give it one: array(1, 2).")
    if BROKEN_LINE in message:
        return StatementError("A quoted value of the CSV file has a line break; read it with the option multiLine 'true'.")
    if found := BROKEN_JSON.search(message):
        line = int(found["line"]) - bool(found["malformed"])  # DuckDB counts a line that it cannot parse twice
        message = f"{found['file']} has no JSON object in line {line}, not counting empty ones: {found['why'].strip(' .')}."
        return StatementError(f"{message} Correct it, or read an object of several lines with the option multiLine 'true'.")
    return StatementError(f"The query failed: {plain(message)}")


def no_utf8(message: str) -> str:
    """Return what is wrong with text that is no UTF-8, and the remedy."""
    file, line = OF_FILE.search(message), CSV_LINE.search(message)
    if file is None:
        return f"A text has bytes that are no UTF-8. {NO_TEXT}"
    name = file["csv"] or file["file"]
    if line is not None:
        where = f"{name} has bytes that are no UTF-8 in line {line['line']}"
        return f"{where}. Read it with OPTIONS (encoding 'ISO-8859-1'), or convert it: {CONVERT}."
    remedy = NO_TEXT if "Parquet" in message else f"Convert it: {CONVERT}."
    return f"{name} has texts whose bytes are no UTF-8. {remedy}"


def tables_near(message: str) -> set[str]:
    """Return the tables that DuckDB would accept in place of one that it does not find."""
    near = CANDIDATES.search(message)
    return set(re.findall(r'"([^"]+)"', near[0])) if near else set()


def plain(message: str) -> str:
    """Return DuckDB's message without its prefixes, settings, excerpts of SQL that nobody wrote, and names that nobody gave."""
    if found := GONE.search(message):
        return gone(found["sought"] or found["file"])
    text = HINTS.sub("", SETTINGS.sub(r" File: \g<file>.", PREFIX.sub("", message.strip())))
    text = " ".join(ADVICE.sub("", GENERATED.sub("", EXCERPT.sub("", text))).split())
    text = TYPE.sub(lambda found: TYPES[found[0]], text)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return text if text.endswith((".", "!", "?")) else f"{text}."

"""All cases of files, by name."""

from __future__ import annotations

from tests.parity import cases_csv, cases_folders, cases_json
from tests.parity.files import Case

CASES: dict[str, Case] = {**cases_csv.CSV, **cases_folders.FOLDERS, **cases_json.JSON}
DIFFERENT: dict[str, tuple[Case, str]] = {
    **cases_csv.DIFFERENT,
    **cases_folders.DIFFERENT,
    **{f"JSON, {name}": case for name, case in cases_json.DIFFERENT.items()},
}

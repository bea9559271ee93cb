"""All cases of files, by name."""

from __future__ import annotations

from tests.parity import cases_csv, cases_folders
from tests.parity.files import Case

CASES: dict[str, Case] = {**cases_csv.CSV, **cases_folders.FOLDERS}
DIFFERENT: dict[str, tuple[Case, str]] = {**cases_csv.DIFFERENT, **cases_folders.DIFFERENT}

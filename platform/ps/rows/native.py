"""The rows of the native store, in the memory of this process: what tables, and readers of versions, keep rows in."""

from __future__ import annotations

from .._native import Store
from .base import NewRows

native_rows: NewRows = Store

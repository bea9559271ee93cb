"""dbt: models of the materialization `xpsql_model` learn rows of dbt-duckdb, by a plugin of that and a package of dbt."""

from __future__ import annotations

from pathlib import Path

from .plugin import Plugin as Plugin

PACKAGE = Path(__file__).parent / "package"
"""The package of dbt, for `local:` in packages.yml."""

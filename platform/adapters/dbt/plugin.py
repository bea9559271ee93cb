"""The plugin of dbt-duckdb that the materialization xpsql_model calls, with the rows of a model as a file of Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from ...errors import XpsqlError
from ...quoting import literal
from ...session import DEFAULT_WAREHOUSE, connect

if TYPE_CHECKING:
    from dbt.adapters.duckdb.utils import TargetConfig

REFRESH = "refresh"
KNOWN = ("using", "label", "clauses", "release_when", "settings", "once")
VERSIONS = "{}-versions.parquet"


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt's classes have no types
    """Trains or continues a model of xpsql, and leaves its versions as a table.

    Its `config` in profiles.yml: `warehouse`, a folder.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """See BasePlugin."""
        self._warehouse = plugin_config.get("warehouse", DEFAULT_WAREHOUSE)

    def store(self, target_config: TargetConfig) -> None:
        """Learn rows.

        Raises:
            DbtRuntimeError: the statement failed, or its version is held.
        """
        model, location = target_config.relation.identifier, target_config.location
        given = {name: target_config.config.get(name) for name in KNOWN}
        try:
            with connect(self._warehouse) as session:
                there = session.models.exists(model)
                fresh = location.format == REFRESH or not there
                try:
                    session.sql(statement(model, given, location.path, fresh, there))
                finally:
                    if session.models.exists(model):
                        versions = session.sql(f"SELECT * FROM ML.VERSIONS(MODEL `{model}`)").arrow()
                        pq.write_table(versions, Path(location.path).with_name(VERSIONS.format(model)))
        except XpsqlError as error:
            raise DbtRuntimeError(str(error)) from error


def statement(model: str, given: Mapping[str, Any], path: str, fresh: bool, there: bool) -> str:
    """Return TRAIN, or CONTINUE of a model that is there.

    Args:
        given: the values of KNOWN in the model's config.
        fresh: it is trained anew.

    Raises:
        DbtRuntimeError: `using` is missing.
    """
    once = {} if given["once"] is None else {"once": given["once"]}
    settings = {**(given["settings"] or {}), **once} if fresh else once  # CONTINUE takes the others over
    told = ", ".join(f"{name} = {written(value)}" for name, value in settings.items())
    rest = f"{f'WITH ({told}) ' if told else ''}AS SELECT * FROM parquet.`{path}`"
    if not fresh:
        return f"CONTINUE MODEL `{model}` {rest}"
    if not given["using"]:
        raise DbtRuntimeError(f"The model {model} needs an algorithm: config(materialized='xpsql_model', using='xftrl').")
    clauses = [f"LABEL {given['label']}" if given["label"] else "", given["clauses"] or ""]
    clauses.append(f"RELEASE WHEN {given['release_when']}" if given["release_when"] else "")
    words = " ".join(one for one in clauses if one)
    return f"TRAIN {'OR REPLACE ' if there else ''}MODEL `{model}` USING {given['using']} {words} {rest}"


def written(value: Any) -> str:
    """Return a setting as a statement has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value) if isinstance(value, str) else str(value)

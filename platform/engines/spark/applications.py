"""The choice of an application for a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .application import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def application_of(spark: SparkSession) -> Application:
    """Return the application of a session."""
    if is_connect(spark):
        from .connect import ConnectApplication

        return ConnectApplication(spark)
    from .classic import ClassicApplication

    return ClassicApplication(spark)


def is_connect(spark: object) -> bool:
    """Return whether an object is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")

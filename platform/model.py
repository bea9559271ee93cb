"""A model as Python holds it: its versions, its metrics, and predictions of frames."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Protocol

from .result import Result


class Runs(Protocol):
    """Runs statements and reads frames: a session."""

    def sql(self, text: str, /) -> Result: ...
    def register(self, name: str, frame: object) -> None: ...
    def unregister(self, name: str) -> None: ...


class Model:
    """A model of a session's warehouse, or one version of it; made by `Session.model`.

    Attributes:
        name: the model.
        version: its number; None for the version that is served when a method is called.
    """

    def __init__(self, session: Runs, name: str, version: int | None) -> None:
        self.name = name
        self.version = version
        self._session = session

    def predict(self, frame: object) -> Result:
        """Score a frame and return its columns and the predictions, as ML.PREDICT does.

        Args:
            frame: as `Session.register` takes it, with the columns that the model learned from.

        Raises:
            StatementError: it lacks a column, or has it in another type.
        """
        with self._registered(frame) as rows:
            return self._session.sql(f"SELECT * FROM ML.PREDICT({self}, TABLE {rows})")

    def evaluate(self, frame: object | None = None) -> Result:
        """Return the metrics on a frame with labels, or without a frame the training's; see ML.EVALUATE."""
        if frame is None:
            return self._session.sql(f"SELECT * FROM ML.EVALUATE({self})")
        with self._registered(frame) as rows:
            return self._session.sql(f"SELECT * FROM ML.EVALUATE({self}, TABLE {rows})")

    def weights(self) -> Result:
        """Return the features and their weights; see ML.WEIGHTS."""
        return self._session.sql(f"SELECT * FROM ML.WEIGHTS({self})")

    @property
    def versions(self) -> Result:
        """A row for each version of the model, oldest first; see SHOW VERSIONS."""
        return self._session.sql(f"SHOW VERSIONS OF MODEL {quoted(self.name)}")

    @property
    def options(self) -> Result:
        """A row for each option of its algorithm, operators and training; see ML.OPTIONS."""
        return self._session.sql(f"SELECT * FROM ML.OPTIONS({self})")

    def __str__(self) -> str:
        version = "" if self.version is None else f" VERSION {self.version}"
        return f"MODEL {quoted(self.name)}{version}"

    def __repr__(self) -> str:
        return f"<xpsql.Model {self.name}{'' if self.version is None else f' version {self.version}'}>"

    @contextmanager
    def _registered(self, frame: object) -> Iterator[str]:
        name = f"frame_{token_hex(6)}"
        self._session.register(name, frame)
        try:
            yield name
        finally:
            self._session.unregister(name)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

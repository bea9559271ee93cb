"""Exports as serving as models of MLflow: `mlflow.pyfunc.load_model(...).predict(frame)`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .reader import PortableExport

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


class PortablePredictor:
    """Predicts rows of a frame that has the columns of a model."""

    def __init__(self, folder: Path) -> None:
        self._model = PortableExport(folder)

    def predict(self, frame: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return what the model says of rows, a column for each output."""
        import pandas as pd

        rows = [{name: plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
        said = self._model.predict(rows)
        return pd.DataFrame({name: list(values) for name, values in said.items()}, index=frame.index)


def plain(value: Any) -> Any:
    """Return a cell as Python has it; NaN, NaT and None are NULL."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return [(plain(key), plain(weight)) for key, weight in value.items()]
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


def _load_pyfunc(path: str) -> PortablePredictor:
    return PortablePredictor(Path(path))

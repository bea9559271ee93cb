"""The dashboard for Grafana, from the list of metrics: `python -m xpsql.platform.adapters.dashboard > FILE` writes it."""

from __future__ import annotations

import json
from typing import Any

from .metrics import COUNTER, TRAINING, TrainingMetric

WIDTH, HEIGHT, COLUMNS = 8, 7, 3
SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict[str, Any]:
    """Return the dashboard: a panel for each metric."""
    panels = [panel(number, name, described) for number, (name, described) in enumerate(TRAINING.items())]
    variables = [
        {"name": "source", "type": "datasource", "query": "prometheus"},
        {
            "name": "model",
            "type": "query",
            "datasource": SOURCE,
            "query": "label_values(xpsql_versions, model)",
            "includeAll": True,
            "multi": True,
            "refresh": 2,
        },
    ]
    return {
        "title": "xpsql trainings and streams",
        "uid": "xpsql-trainings",
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }


def panel(number: int, name: str, described: TrainingMetric) -> dict[str, Any]:
    """Return the panel of a metric: of what is counted, its rate."""
    counted = described.kind == COUNTER
    chosen = f'{name}{{model=~"$model"}}'
    factor = " * 1000" if described.unit == "dateTimeFromNow" else ""  # Grafana's times are milliseconds
    legend = " ".join(f"{{{{{label}}}}}" for label in ("model", *described.labels))
    return {
        "id": number + 1,
        "type": "stat" if described.unit == "dateTimeFromNow" else "timeseries",
        "title": name.removeprefix("xpsql_").removesuffix("_total").replace("_", " ") + (" a second" if counted else ""),
        "description": described.help,
        "datasource": SOURCE,
        "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": described.unit}, "overrides": []},
        "targets": [{"refId": "A", "expr": f"rate({chosen}[5m])" if counted else chosen + factor, "legendFormat": legend}],
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))

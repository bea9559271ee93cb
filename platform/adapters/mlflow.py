"""MLflow: a version is a run, with its options, metrics of its windows and sources; its export is a registered model."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...warehouse.manifest import FILE
from ...warehouse.trainings.progress import read_progress
from ..engines.targets import Target
from ..errors import XpsqlError
from ..system import needing
from ..training.metrics import METRICS
from .watching import AdapterKind, WatchedRun

if TYPE_CHECKING:
    import pyarrow as pa
    from mlflow.models import ModelSignature

    from ...warehouse.manifest import Manifest
    from ...warehouse.version import Version

EXPERIMENT = "xpsql"
READER = Path(__file__).parents[1] / "portable" / "xpsql_reader"
LOADER = "xpsql_reader.pyfunc"
SERVED = "served"
AT_ONCE = 100
"""Parameters and metrics that a server takes in one request; 1,000 of the latter."""


class MlflowAdapter:
    """Tells a tracking server, which MLflow's own settings name: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME."""

    def __init__(self) -> None:
        try:
            import mlflow
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise XpsqlError(needing("XPSQL_MLFLOW needs the package mlflow-skinny or mlflow", "mlflow")) from error
        self._mlflow, self._client = mlflow, MlflowClient()
        self._runs = dict[int, str]()
        self._exported: list[Version] = []
        self._served: int | None = None
        self._promotes = False

    def started(self, run: WatchedRun) -> None:
        """See Adapter: a version has a run once it is there."""

    def committed(self, run: WatchedRun, version: Version) -> None:
        """Log a version: a run that has ended."""
        manifest = version.manifest
        began = milliseconds(manifest.created)
        made = self._client.create_run(
            self._experiment(), start_time=began, run_name=f"{run.model} v{version.number}", tags=tags_of(run, manifest)
        )
        identity = self._runs[version.number] = made.info.run_id
        entities = self._mlflow.entities
        params = [entities.Param(name, value) for name, value in params_of(manifest)]
        metrics = [entities.Metric(*one) for one in metrics_of(version)]
        for at in range(0, len(params), AT_ONCE):
            self._client.log_batch(identity, params=params[at : at + AT_ONCE])
        for at in range(0, len(metrics), 10 * AT_ONCE):
            self._client.log_batch(identity, metrics=metrics[at : at + 10 * AT_ONCE])
        inputs = [
            entities.DatasetInput(
                entities.Dataset(
                    source.name[:500], (source.digest or source.snapshot or "unknown")[:36], source.kind, source.name
                )
            )
            for source in manifest.sources
        ]
        if inputs:
            self._client.log_inputs(identity, inputs)
        self._client.log_artifact(identity, str(version.folder / FILE))
        self._client.set_terminated(identity, "FINISHED", milliseconds(manifest.finished))
        self._exported.append(version)

    def promoted(self, run: WatchedRun, served: int | None) -> None:
        """See Adapter: told once models are registered."""
        self._promotes, self._served = True, served

    def ended(self, run: WatchedRun, versions: int, error: str | None) -> None:
        """Register what was made, and move the alias of what is served."""
        for version in self._exported:
            try:
                self._register(run, version)
            except XpsqlError as problem:
                self._client.set_tag(self._runs[version.number], "xpsql.not_registered", str(problem)[:5000])
        if error is not None and not versions:
            made = self._client.create_run(
                self._experiment(),
                start_time=milliseconds(run.began),
                run_name=run.model,
                tags={**tags(run), "xpsql.error": error},
            )
            self._client.set_terminated(made.info.run_id, "FAILED")
        if self._promotes:
            self._move_alias(run.model)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        found = self._client.get_experiment_by_name(name)
        made: str = found.experiment_id if found is not None else self._client.create_experiment(name)
        return made

    def _register(self, run: WatchedRun, version: Version) -> None:
        """Log a version's export as a model.

        Raises:
            XpsqlError: it cannot be exported.
        """
        import pyarrow.parquet as pq

        from ..portable.export import SERVING, export_portable

        if version.manifest.algorithm.name == "xgboost":
            raise XpsqlError("xgboost has a model of its own: EXPORT MODEL ... FORMAT serving writes it.")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "export"
            export_portable(version, run.engine(), Target(str(place)), SERVING, False, "", False)
            described = json.loads((place / "model.json").read_text(encoding="utf-8"))
            rows = pq.read_table(place / "parity.parquet").slice(0, 100)
            columns = list(dict.fromkeys(slot["column"] for slot in described["slots"] if slot["column"] in rows.column_names))
            signature = signature_of(rows.select(columns), rows.select([one["name"] for one in described["outputs"]]))
            with self._mlflow.start_run(run_id=self._runs[version.number]):
                logged = self._mlflow.pyfunc.log_model(
                    name="model",
                    loader_module=LOADER,
                    data_path=str(place),
                    code_paths=[str(READER)],
                    signature=signature,
                    pip_requirements=["numpy", "onnxruntime", "pandas"],
                    registered_model_name=run.model,
                )
        number = logged.registered_model_version
        for name, value in {"xpsql.version": str(version.number), "xpsql.status": version.manifest.status}.items():
            self._client.set_model_version_tag(run.model, str(number), name, value)

    def _move_alias(self, model: str) -> None:
        """Let the alias `served` name the registered model of the version served; of none where that was not registered."""
        found = [
            one
            for one in self._client.search_model_versions(f"name='{model}'")
            if one.tags.get("xpsql.version") == str(self._served)
        ]
        if found:
            newest = max(found, key=lambda one: int(one.version))
            self._client.set_registered_model_alias(model, SERVED, newest.version)


def signature_of(rows: pa.Table, said: pa.Table) -> ModelSignature:
    """Return the columns of frames and of answers: numbers as wide as pandas makes them, which MLflow never narrows, and none
    required, as each may be NULL."""
    import pyarrow as pa
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, DataType, Schema

    kinds = {column.name: column.type for column in rows.schema}
    wide = {name: DataType.long for name, kind in kinds.items() if pa.types.is_integer(kind)}
    wide |= {name: DataType.double for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_decimal(kind)}
    others = [name for name in kinds if name not in wide]
    found = infer_signature(rows.select(others).to_pandas()).inputs.input_dict() if others else {}
    columns = [ColSpec(wide[name] if name in wide else found[name].type, name, required=False) for name in kinds]
    return ModelSignature(Schema(columns), infer_signature(None, said.to_pandas()).outputs)


def milliseconds(time: datetime | str | None) -> int | None:
    """Return a time, or its text, as MLflow has it."""
    if time is None:
        return None
    return int((datetime.fromisoformat(time) if isinstance(time, str) else time).timestamp() * 1000)


def tags(run: WatchedRun) -> dict[str, str]:
    return {"xpsql.warehouse": str(run.warehouse), "xpsql.model": run.model, "xpsql.statement": run.statement[:5000]}


def tags_of(run: WatchedRun, manifest: Manifest) -> dict[str, str]:
    """Return the tags of a version's run."""
    found = {
        "xpsql.version": str(manifest.version),
        "xpsql.status": manifest.status,
        "xpsql.algorithm": manifest.algorithm.name,
    }
    if manifest.parent is not None:
        found["xpsql.parent"] = str(manifest.parent)
    if manifest.error is not None:
        found["xpsql.reason"] = manifest.error
    return {**tags(run), **found}


def params_of(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the options of a version, as strings."""
    yield "algorithm", manifest.algorithm.name
    for option in manifest.chosen:
        name = ".".join(part for part in (option.part or option.clause, option.name) if part)
        yield name, json.dumps(option.value, default=str)[:6000]


def metrics_of(version: Version) -> Iterator[tuple[str, float, int, int]]:
    """Yield metrics: name, value, milliseconds, and the examples learned by then; those of windows, then of the version."""
    names = [metric.name for metric in METRICS]
    for line in read_progress(version.folder):
        if line.get("segment") is not None:
            continue
        kind = "validation/" if line.get("validation") else "window/" if line.get("window") is not None else ""
        prefix = f"{line['label']}/" if line.get("label") else ""
        at = milliseconds(line["time"]) or 0
        for name in names:
            if line.get(name) is not None and kind:
                yield f"{kind}{prefix}{name}", float(line[name]), at, int(line.get("batch") or line.get("examples") or 0)
    manifest = version.manifest
    ended = milliseconds(manifest.finished) or 0
    for name, value in manifest.metrics.items():
        if value is not None:
            yield name.replace("(", "/").rstrip(")"), float(value), ended, manifest.learned.examples


MLFLOW = AdapterKind("MLFLOW", MlflowAdapter)

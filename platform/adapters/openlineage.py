"""OpenLineage: a statement is a run of the job that is named as its model, from sources to versions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..errors import XpsqlError
from ..system import needing
from .watching import AdapterKind, WatchedRun

if TYPE_CHECKING:
    from ...warehouse.entries import SourceEntry
    from ...warehouse.version import Version

PRODUCER = f"urn:xpsql:{version_of('xpsql')}"
PARENT = "OPENLINEAGE_PARENT_ID"
STREAMS = ("topic", "kafka")


class OpenLineageAdapter:
    """Sends events where OPENLINEAGE_URL or openlineage.yml say."""

    def __init__(self) -> None:
        try:
            from openlineage.client import OpenLineageClient, event_v2, facet_v2
            from openlineage.client.uuid import generate_new_uuid
        except ImportError as error:
            raise XpsqlError(needing("XPSQL_OPENLINEAGE needs the package openlineage-python", "openlineage")) from error
        self._client, self._events, self._facets = OpenLineageClient(), event_v2, facet_v2
        self._id = str(generate_new_uuid())
        self._inputs, self._outputs = dict[str, Any](), list[Any]()

    def started(self, run: WatchedRun) -> None:
        """Send START."""
        self._send(run, "START")

    def committed(self, run: WatchedRun, version: Version) -> None:
        """Send RUNNING with what a version was made from."""
        for source in version.manifest.sources:
            if source.kind not in ("query", "rows"):
                namespace, name = dataset_of(source, run.warehouse)
                self._inputs[f"{namespace} {name}"] = self._input(source, namespace, name, version)
        output = self._output(run, version)
        self._outputs = [*self._outputs, output]
        self._send(run, "RUNNING", [output])

    def promoted(self, run: WatchedRun, served: int | None) -> None:
        """See Adapter: lineage has no word for it."""

    def ended(self, run: WatchedRun, versions: int, error: str | None) -> None:
        """Send COMPLETE, FAIL, or ABORT if somebody interrupted it."""
        facets = {}
        if error is not None:
            facets["errorMessage"] = self._facets.error_message_run.ErrorMessageRunFacet(error, "SQL", producer=PRODUCER)
        stopped = error is not None and error.startswith(("KeyboardInterrupt", "SystemExit"))
        self._send(run, "COMPLETE" if error is None else "ABORT" if stopped else "FAIL", self._outputs, facets)

    def _send(self, run: WatchedRun, kind: str, outputs: list[Any] | None = None, more: dict[str, Any] | None = None) -> None:
        events, facets = self._events, self._facets
        of_run = dict(more or {})
        if (parent := os.environ.get(PARENT)) is not None:
            namespace, name, identity = parent.rsplit("/", 2)
            of_run["parent"] = facets.parent_run.ParentRunFacet(
                facets.parent_run.Run(identity), facets.parent_run.Job(namespace, name), producer=PRODUCER
            )
        of_job = {
            "sql": facets.sql_job.SQLJobFacet(run.statement, "xpsql", producer=PRODUCER),
            "jobType": facets.job_type_job.JobTypeJobFacet("BATCH", "XPSQL", "TRAINING", producer=PRODUCER),
        }
        self._client.emit(
            events.RunEvent(
                eventTime=(run.began if kind == "START" else datetime.now(UTC)).isoformat(),
                producer=PRODUCER,
                eventType=events.RunState[kind],
                run=events.Run(self._id, of_run),
                job=events.Job(run.warehouse.absolute().as_uri(), run.model, of_job),
                inputs=list(self._inputs.values()),
                outputs=outputs or [],
            )
        )

    def _input(self, source: SourceEntry, namespace: str, name: str, version: Version) -> Any:
        facets, of_input = dict[str, Any](), dict[str, Any]()
        if source.digest or source.snapshot:
            made = self._facets.dataset_version_dataset.DatasetVersionDatasetFacet
            facets["version"] = made(source.snapshot or source.digest, producer=PRODUCER)
        if source.files:
            made = self._facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet
            of_input["inputStatistics"] = made(size=source.bytes, fileCount=source.files, producer=PRODUCER)
        return self._events.InputDataset(namespace, name, facets=facets, inputFacets=of_input)

    def _output(self, run: WatchedRun, version: Version) -> Any:
        manifest = version.manifest
        schema = self._facets.schema_dataset
        fields = [schema.SchemaDatasetFacetFields(slot.name, slot.type) for slot in manifest.slots if slot.type]
        facets = {
            "version": self._facets.dataset_version_dataset.DatasetVersionDatasetFacet(str(version.number), producer=PRODUCER),
            "schema": schema.SchemaDatasetFacet(fields, producer=PRODUCER),
        }
        size = sum(int(block.split(" ")[1]) for file in manifest.files or () for block in file.blocks)
        made = self._facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        statistics = made(rowCount=manifest.learned.rows, size=size, fileCount=len(manifest.files or ()), producer=PRODUCER)
        namespace = run.warehouse.absolute().as_uri()
        return self._events.OutputDataset(
            namespace, f"models/{run.model}", facets=facets, outputFacets={"outputStatistics": statistics}
        )


def dataset_of(source: SourceEntry, warehouse: Path) -> tuple[str, str]:
    """Return namespace and name of a source by the naming rules of OpenLineage."""
    if source.kind in STREAMS:
        servers = str(source.position.get("servers") or os.environ.get("KAFKA_BOOTSTRAP", "unknown"))
        return f"kafka://{servers.split(',')[0]}", source.name
    path = next(paths_in(source.name), None)
    if path is None:
        return warehouse.absolute().as_uri(), source.name
    where = urlsplit(path)
    if len(where.scheme) > 1 and where.scheme != "file":
        return f"{where.scheme}://{where.netloc}", where.path.lstrip("/") or "/"
    return "file", str(Path(where.path if where.scheme == "file" else path).absolute())


def paths_in(name: str) -> Iterator[str]:
    """Yield the path of a name such as parquet.`/data/log`."""
    before, tick, rest = name.partition("`")
    if tick and before.endswith("."):
        yield rest.rstrip("`")


OPENLINEAGE = AdapterKind("OPENLINEAGE", OpenLineageAdapter)

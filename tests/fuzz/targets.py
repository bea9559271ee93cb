"""What reads bytes of others: each target takes any bytes, and raises nothing but the errors that their reader says it raises.

A target is made once, in a folder of its own, and then called many times; what it gives is called with the bytes. It returns
whether they were taken for what they might be, so that a corpus can be seen to go further than the first check.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from tests.fuzz.native import of_arguments, of_frames, of_image, of_messages
from xpsql.platform.engines.duckdb.engine import DuckDBEngine
from xpsql.platform.engines.spark_sql.dialect import parse
from xpsql.platform.engines.spark_sql.passage import Passage
from xpsql.platform.engines.spark_sql.statements import read
from xpsql.platform.errors import CheckpointError, DataError, ModelError, XpsqlError
from xpsql.platform.histories.image import HistoryImage, write_image
from xpsql.platform.histories.kept import DEFINITION
from xpsql.platform.histories.stored import IMAGE, HistoryDefinition, StoredHistories
from xpsql.platform.histories.stored import MANIFEST as MANIFEST_OF_HISTORY
from xpsql.platform.input.streams.decoding import Decoder, schema_of
from xpsql.platform.input.streams.files import ArrivedFile
from xpsql.platform.input.streams.record_files import avro_splits, read_avro
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.service import shard_handlers
from xpsql.platform.ps.transport.codec import WireError
from xpsql.platform.ps.transport.wire import Handler
from xpsql.platform.ps.watermarks import Watermarks
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.platform.sql.script import parse_script, refusing_excess
from xpsql.platform.training.checkpoints.driver_state import DRIVER_STATE
from xpsql.platform.training.checkpoints.files import HEAD, STATE, read_message
from xpsql.warehouse.manifest import read_manifest
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoint_files import File, read_records
from xpsql.warehouse.trainings.checkpoints import MANIFEST, Checkpoints, checksum
from xpsql.warehouse.trainings.progress import read_progress

Target = Callable[[bytes], bool]
PATHS = (
    "/v1/models/m:predict", "/v2/models/m/infer", "/v1/models/m/versions/1:predict", "/v2/models/m/ready", "/v2/health/live",
)  # fmt: skip
MODEL = """
TRAIN MODEL m USING xftrl LABEL click IGNORE (id) AS SELECT id, CAST(id % 3 = 0 AS INT) AS click, concat('u', id % 11) AS user,
    CAST(id % 7 AS BIGINT) AS ad, date_add(DATE'2024-01-01', CAST(id % 5 AS INT)) AS day, CAST(id % 13 AS DOUBLE) / 3 AS price,
    array(concat('t', id % 4), 't') AS tags, map(concat('w', id % 3), CAST(id % 5 AS FLOAT)) AS words FROM range(200)
"""


def of_handlers(folder: Path) -> Target:
    """Requests of a worker that has proved itself: the first byte names the call, two the length of the table of contents."""
    from tests.ps.test_remote_client import new_shard

    shard = new_shard()
    shard.moments = no_moments(3)
    shard.watermarks = Watermarks.fresh(range(1024), shard.dense.names, 0)
    handlers: tuple[Handler[Any, Any], ...] = shard_handlers(shard)

    def target(data: bytes) -> bool:
        if len(data) < 3:
            return False
        handler = handlers[data[0] % len(handlers)]
        content = np.frombuffer(data, np.uint8, offset=3).copy()
        try:
            request = handler.call.request.decode(content, int.from_bytes(data[1:3], "little"))
        except WireError:
            return False
        try:
            handler.call.answer.encode(handler.answer(request))
        except XpsqlError:
            return True
        return True

    return target


def of_manifests(folder: Path) -> Target:
    """A manifest of a version, and the progress beside it, after a NUL."""

    def target(data: bytes) -> bool:
        manifest, _, progress = data.partition(b"\0")
        (folder / "manifest.json").write_bytes(manifest)
        (folder / "progress.jsonl").write_bytes(progress)
        read_progress(folder)
        try:
            read_manifest(folder)
        except ModelError:
            return False
        return True

    return target


def of_checkpoints(folder: Path) -> Target:
    """A file of a checkpoint, which the first byte names; checksums are made right, so that more than they is tried."""
    name = "000000-000001"
    (folder / name).mkdir()
    place = Storage(str(folder))
    checkpoints = Checkpoints(place)

    def manifest(data: bytes) -> None:
        try:
            values = json.loads(data)
        except ValueError:
            values = None
        if isinstance(values, dict) and "checkpoint" in values:
            data = json.dumps({**values, "checksum": checksum(values["checkpoint"])}).encode()
        (folder / name / MANIFEST).write_bytes(data)
        checkpoints.read(name)

    def state(codec: Any) -> Callable[[bytes], None]:
        def read_state(data: bytes) -> None:
            content = HEAD.pack(codec.checksum, int.from_bytes(data[:2], "little")) + data[2:]
            (folder / name / "state").write_bytes(content)
            read_message(place, f"{name}/state", codec, File("state", len(content), zlib.crc32(content)))

        return read_state

    def records(data: bytes) -> None:
        (folder / name / "rows").write_bytes(data)
        for _ in read_records(place, f"{name}/rows", 3):
            pass

    kinds = (manifest, state(STATE), state(DRIVER_STATE), records)

    def target(data: bytes) -> bool:
        try:
            kinds[data[0] % len(kinds) if data else 0](data[1:])
        except (CheckpointError, ModelError):
            return False
        return True

    return target


def of_statements(folder: Path) -> Target:
    """A script: its statements are read, and what is for the engine is parsed."""

    def target(data: bytes) -> bool:
        text = data.decode("utf-8", "replace")
        try:
            parse_script(text, {}, None, DuckDBEngine.statements)
        except XpsqlError:
            return False
        try:
            with refusing_excess(Passage.of(text).position(0, "")):
                read(text)
                parse(text)
        except XpsqlError:
            return True
        return True

    return target


def of_requests(folder: Path) -> Target:
    """A request of HTTP: the first byte names the path, the second the headers; no answer may be an error of the service."""
    session = xpsql.connect(folder / "warehouse", "duckdb", SilentReporter())
    session.sql(MODEL)
    faults: list[BaseException | None] = []
    served = Served(session.models, ["m"], None, lambda reported: None)
    service = Service(served, RequestLimits(body_bytes=1 << 16, rows=1000), None, None, lambda: faults.append(None))

    def target(data: bytes) -> bool:
        if len(data) < 2:
            return False
        body, headers = data[2:], {}
        if data[1] & 1:
            headers["content-type"] = "application/vnd.apache.arrow.stream"
        if data[1] & 2:
            headers["inference-header-content-length"] = str(int(data[1] >> 2) * 8)
        response = service.handle("POST" if data[0] & 128 == 0 else "GET", PATHS[data[0] % len(PATHS)], headers, body)
        if response.status >= 500 or faults:
            raise AssertionError(f"the service answers {response.status} {response.body[:300]!r}")
        return response.status == 200

    return target


def of_histories(folder: Path) -> Target:
    """A file of a history, which the first byte names: its definition, its manifest, and the files of its image."""
    histories = StoredHistories(folder)
    histories.create(HistoryDefinition("h", "CREATE", "SELECT 1", "user", "ts", ("item", "shops"), 3, None))
    events = pa.table({"user": ["a", "a", "b"], "ts": [1, 2, 3], "item": ["x", "", None], "shops": [["s"], [], ["t", "u"]]})
    with histories.draft("h") as draft:
        pq.write_table(events, draft / "kept.parquet")
        write_image([draft / "kept.parquet"], draft / IMAGE, "user")
        version = histories.publish("h", draft, 3, 3, 2, {})
    image, users = version.folder / IMAGE, pa.array(["a", "b", "c"])
    files = (version.folder.parent / DEFINITION, version.folder / MANIFEST_OF_HISTORY, *(image / name for name in version.sums))
    whole = [file.read_bytes() for file in files]
    taken = (lambda: True, lambda: True, lambda: True, lambda: True)  # code of its own each, so that an input of each is kept

    def target(data: bytes) -> bool:
        number = data[0] % len(files) if data else 0
        files[number].write_bytes(data[1:])
        try:
            definition, found = histories.definition("h"), histories.newest("h")
            assert found is not None
            mapped = HistoryImage(image, definition.order, None)  # checksums are not compared, so that more than they is tried
            for user in users:
                for value in definition.values:
                    mapped.last(pa.array([user]), 3, value).to_pylist()
        except ModelError:
            return False
        finally:
            files[number].unlink()  # it may be mapped
            files[number].write_bytes(whole[number])
        return taken[number]()

    return target


def of_lines(folder: Path) -> Target:
    """Values of messages, or lines of a file, that are JSON objects."""
    schema = schema_of(
        "a INT, b STRING, c DOUBLE, d ARRAY<INT>, e MAP<STRING, FLOAT>, f TIMESTAMP, g DATE, h STRUCT<x: BIGINT, y: BOOLEAN>"
    )
    decoder = Decoder(schema)

    def target(data: bytes) -> bool:
        lines = data.split(b"\n")
        found = decoder.objects(pa.array(lines, pa.binary()), np.arange(len(lines)), schema.names)
        assert found.rows.num_rows + len(found.skipped) == len(lines)
        return found.rows.num_rows > 0

    return target


def of_avro(folder: Path) -> Target:
    """A file of Avro."""
    path = folder / "a.avro"

    def target(data: bytes) -> bool:
        path.write_bytes(data)
        try:
            avro_splits(ArrivedFile(str(path), len(data), 0))
            read_avro(str(path), None)
        except DataError:
            return False
        return True

    return target


TARGETS: dict[str, Callable[[Path], Target]] = {
    "frames": of_frames,
    "messages": of_messages,
    "arguments": of_arguments,
    "image": of_image,
    "handlers": of_handlers,
    "manifests": of_manifests,
    "checkpoints": of_checkpoints,
    "statements": of_statements,
    "requests": of_requests,
    "histories": of_histories,
    "lines": of_lines,
    "avro": of_avro,
}

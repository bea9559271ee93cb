"""Writes the corpus that the repository keeps: `python -m tests.fuzz.seeds`. One or a few inputs that each reader takes."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import xpsql
from tests.fuzz.native import codecs
from tests.fuzz.targets import of_histories
from tests.ps.test_remote_client import LocalClient, new_shard, pushed, random_keys
from tests.serving.conftest import ROW
from tests.training.log import log, write
from tests.training.test_resume import interrupted
from xpsql.platform.images.layout import RowColumn, in_memory, placed
from xpsql.platform.progress import SilentReporter
from xpsql.platform.ps.moments import no_moments
from xpsql.platform.ps.service import PULL, PUSH, Pull, shard_handlers
from xpsql.platform.ps.transport.wire import Status, pack
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoint_files import write_records

CORPUS = Path(__file__).parent / "corpus"
STATEMENTS = """\
TRAIN OR REPLACE MODEL m USING xftrl (alpha = 0.1) OPERATORS (admit (min_count = 3)) LABEL y AS SELECT * FROM t
CONTINUE MODEL m AS SELECT y, CAST(x AS STRING) AS x FROM parquet.`a/b` WHERE x IN (1, 2, -3)
SELECT * FROM ML.PREDICT(MODEL m VERSION 2, (SELECT a, 'it''s' AS b FROM t /* c */ WHERE a > 1e-3)) ORDER BY 1 -- end
CREATE OR REPLACE TEMP VIEW v (a COMMENT 'x') AS WITH c AS (SELECT explode(b) AS a) SELECT sum(b) OVER (PARTITION BY a) FROM c
EXPORT MODEL m TO 'out' FORMAT parquet; DROP MODEL IF EXISTS m; SHOW MODELS; DESCRIBE MODEL m
SELECT CASE WHEN a BETWEEN 1 AND 2 THEN transform(x, e -> e)[0] ELSE ${n:-1} END FROM t LATERAL VIEW explode(m) AS k, v"""


def request(method: Any, number: int, message: Any) -> bytes:
    encoded = method.request.encode(message)
    body = b"".join(bytes(part) for part in (encoded.contents, *encoded.body))
    return bytes([number]) + encoded.contents_bytes.to_bytes(2, "little") + body


def image(dim: int) -> bytes:
    """Return a key, and an image of three rows, one of them its own."""
    keys = np.array([5, 2**63, 2**64 - 2], np.uint64)
    layout, place = placed(keys, (RowColumn("t", "w", 0, dim),), dim == 1, 3, bytes(16))
    return (5).to_bytes(8, "little") + in_memory(layout, keys, place, lambda place, rows: rows.__setitem__(place, 1)).tobytes()


def trainings(folder: Path) -> tuple[Path, Path]:
    """Return the folders of a version whose training was interrupted, and of one of pairs of features."""
    rows = write(log(4_000), folder / "log.parquet")
    settings = "batch_size = 64, passes = 2, checkpoint_seconds = 0.02"
    interrupted(folder, f"TRAIN MODEL m USING xftrl IGNORE (ts) WITH ({settings}) AS SELECT * FROM parquet.`{rows}`")
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        session.sql(f"TRAIN MODEL pairs USING xftrl CROSS (user * item) AS SELECT label, user, item FROM parquet.`{rows}`")
    return folder / "models" / "m" / "v1", folder / "models" / "pairs" / "v1"


def main() -> None:
    keys = random_keys(3, 1)
    push = pushed(LocalClient([new_shard()]), keys, 2)._replace(moments=no_moments(3))
    names = [handler.call.name for handler in shard_handlers(new_shard())]
    outgoing = pack(Status.REQUEST, PULL.kind, 1, PULL.request, Pull(keys, 64, True))
    pushing = pack(Status.REQUEST, PUSH.kind, 2, PUSH.request, push)
    arrow = io.BytesIO()
    words = pa.array([[("w1", 2.0)]], pa.map_(pa.string(), pa.float32()))
    given = {name: value for name, value in ROW.items() if name != "mobile"}
    context = {name: value for name, value in given.items() if name != "ad"}
    table = pa.Table.from_pylist([given | {"words": None}]).set_column(len(given) - 1, "words", words)
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    with tempfile.TemporaryDirectory() as folder:
        write_records(Storage(folder), "rows", 4, [np.frombuffer(b"abcd" * 3, np.uint8).reshape(3, 4)])
        rows = (Path(folder) / "rows").read_bytes()
    progress = b'\0{"pass": 1}\n{"pass": 2, "examples": 3}\n'
    with tempfile.TemporaryDirectory() as folder:
        stopped, pairs = trainings(Path(folder))
        point = min(path for path in (stopped / "checkpoints").iterdir() if path.is_dir())
        states = {name: (point / name).read_bytes() for name in ("shard-0000.state", "driver.state")}
        manifests = [(version / "manifest.json").read_bytes() for version in (stopped, pairs)]
        checkpoint = (point / "manifest.json").read_bytes()
    declared = list(codecs())
    tensors = [
        {"name": "ad", "shape": [1, 1], "datatype": "INT64", "data": [3]},
        {"name": "user", "shape": [1, 1], "datatype": "BYTES", "data": ["u1"]},
    ]
    with tempfile.TemporaryDirectory() as folder:
        of_histories(Path(folder))
        of_history = ("definition.json", "v1/manifest.json", "v1/image/users.arrow", "v1/image/events.arrow")
        history = [(Path(folder) / "histories" / "h" / name).read_bytes() for name in of_history]
        written = pl.DataFrame({"id": [1, 2], "name": ["a", None], "tags": [["x"], []], "price": [0.5, -1.0]})
        avro = []
        for compression in ("uncompressed", "snappy"):
            written.write_avro(file := io.BytesIO(), compression)  # type: ignore[arg-type]
            avro.append(file.getvalue())
    corpus: dict[str, list[bytes]] = {
        "frames": [b"\xff" + outgoing.next(1 << 20), b"\x05" + pushing.next(1 << 20) + outgoing.next(1 << 20)],
        "messages": [
            request(PULL, declared.index(PULL.request.checksum), Pull(keys, 64, True)),
            request(PUSH, declared.index(PUSH.request.checksum), push),
            *(bytes([declared.index(int.from_bytes(one[:4], "little"))]) + one[4:6] + one[12:] for one in states.values()),
        ],
        "arguments": [
            bytes([0, 3, *[0] * 7, 0, *[0] * 8, 1, 3, 0, 0, 3, 1, 2, 0, 0, 3, 2, 3, 0, 2, 15, 1, 1, 0, 0, 5, *range(120)]),
            bytes([1, 9, *[0] * 7, 1, 9, 0, 0, 0, *[1] * 9]),
            bytes([2, 0, *[0] * 7, 254, 255, 254, 254]),
        ],
        "image": [image(3), image(1)],
        "handlers": [
            request(PULL, names.index(PULL.name), Pull(keys, 64, True)),
            request(PUSH, names.index(PUSH.name), push),
            *(bytes([number, 0, 0]) for number in range(len(names))),
        ],
        "manifests": [
            manifests[0],
            manifests[1] + progress,
        ],
        "checkpoints": [
            b"\0" + checkpoint,
            *(bytes([1 + n]) + content[4:6] + content[12:] for n, content in enumerate(states.values())),
            b"\x03" + rows,
        ],
        "statements": [line.encode() for line in STATEMENTS.splitlines()],
        "requests": [
            b"\0\0" + json.dumps({"instances": [given, given]}).encode(),
            b"\0\0" + json.dumps({"context": context, "candidates": [{"ad": 4}, {"ad": 5}]}).encode(),
            b"\0\1" + arrow.getvalue(),
            b"\1\0" + json.dumps({"inputs": tensors}).encode(),
            b"\x85\0",
        ],
        "histories": [bytes([number]) + content for number, content in enumerate(history)],
        "lines": [
            b'{"a": 1, "b": "x", "c": 0.5, "d": [1, null], "e": {"k": 1.5}, "f": "2024-01-02 03:04:05", "g": "2024-01-02"}',
            b'{"h": {"x": 9007199254740993, "y": true}, "other": [{}]}\n\n{"a": "no"}\n[1]\n{"b": "\\u00e9\\ud83d\\ude00"}',
        ],
        "avro": avro,
    }
    for name, inputs in corpus.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs):
            (CORPUS / name / f"seed-{number}").write_bytes(data)


if __name__ == "__main__":
    main()

"""Triton's own client of the Open Inference Protocol, against the service as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xpsql
from tests.serving.conftest import ROW
from tests.serving.test_process import ask, service

triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
ROWS: list[dict[str, Any]] = [
    ROW,
    {**ROW, "ad": 4, "tags": ["t3", "t0"], "price": 0.5},
    {**ROW, "user": "u é", "mobile": False},
]


@pytest.fixture(scope="module")
def url(session: xpsql.Session) -> Iterator[str]:
    with service(session.models.warehouse) as (url, _):
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    client = triton.InferenceServerClient(url.removeprefix("http://"), network_timeout=60, connection_timeout=60)
    yield client
    client.close()


def inputs(described: list[dict[str, Any]], binary: bool) -> list[Any]:
    """Return the rows as tensors of the types that the service tells."""
    found = []
    for reported in described:
        values = [row[reported["name"]] for row in ROWS]
        if reported["name"] == "words":
            values = [json.dumps(value) for value in values]
        kind = TYPES[reported["datatype"]]
        array = np.array(values, kind)
        tensor = triton.InferInput(reported["name"], list(array.shape), reported["datatype"])
        tensor.set_data_from_numpy(array, binary_data=binary)
        found.append(tensor)
    return found


TYPES: dict[str, Any] = {"BYTES": np.object_, "INT64": np.int64, "FP64": np.float64, "BOOL": np.bool_}


def test_it_finds_the_server_and_the_model(client: Any) -> None:
    assert (client.is_server_live(), client.is_server_ready(), client.is_model_ready("ctr")) == (True, True, True)
    assert client.is_model_ready("ctr", "1")
    assert not client.is_model_ready("absent")
    assert client.get_server_metadata()["name"] == "xpsql"
    metadata = client.get_model_metadata("ctr")
    assert (metadata["versions"], [one["name"] for one in metadata["outputs"]]) == (["1"], ["predicted_click"])


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_its_tensors_are_answered_as_json_is(url: str, client: Any, binary_in: bool, binary_out: bool) -> None:
    tensors = inputs(client.get_model_metadata("ctr")["inputs"], binary_in)
    wanted = ask(f"{url}/v1/models/ctr:predict", {"instances": ROWS})["predictions"]
    outputs = [triton.InferRequestedOutput("predicted_click", binary_data=binary_out)]
    answer = client.infer("ctr", tensors, model_version="1", outputs=outputs, request_id="seven")
    assert answer.as_numpy("predicted_click").tolist() == wanted
    assert answer.get_response()["id"] == "seven"
    assert client.infer("ctr", tensors).as_numpy("predicted_click").tolist() == wanted
    assert client.async_infer("ctr", tensors).get_result().as_numpy("predicted_click").tolist() == wanted


def test_it_reports_what_is_wrong(client: Any) -> None:
    tensors = inputs(client.get_model_metadata("ctr")["inputs"], True)
    with pytest.raises(triton.InferenceServerException, match="The tensor user is missing"):
        client.infer("ctr", tensors[1:])
    with pytest.raises(triton.InferenceServerException, match="There is no model"):
        client.infer("absent", tensors)
    with pytest.raises(triton.InferenceServerException, match="compressed"):
        client.infer("ctr", tensors, request_compression_algorithm="gzip")

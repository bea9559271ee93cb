"""What the service answers, asked by its function `handle`."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpsql
from tests.serving.conftest import COLUMNS, ROW, Client, failing
from xpsql.platform.serving.arrow_stream import CONTENT_TYPE
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

PREDICT, INFER = "/v1/models/ctr:predict", "/v2/models/ctr/infer"


@pytest.fixture(scope="module")
def wanted(session: xpsql.Session) -> list[float]:
    found = session.sql(
        "SELECT predicted_click FROM ML.PREDICT(MODEL ctr, (SELECT * FROM log WHERE id < 40 ORDER BY id))"
    ).arrow()
    return list(found.column(0).to_pylist())


@pytest.fixture(scope="module")
def rows(session: xpsql.Session) -> pa.Table:
    return session.sql("SELECT * FROM log WHERE id < 40 ORDER BY id").arrow().select(list(COLUMNS))


def as_json(rows: pa.Table) -> list[dict[str, Any]]:
    found = rows.to_pylist()
    return [{**row, "day": row["day"].isoformat(), "words": dict(row["words"])} for row in found]


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_instances_have_the_predictions_of_ml_predict(client: Client, rows: pa.Table, wanted: list[float]) -> None:
    np.testing.assert_allclose(client.predict({"instances": as_json(rows)}), wanted, rtol=1e-6)
    assert client.predict({"instances": []}) == []


def test_a_context_holds_for_all_candidates(client: Client, rows: pa.Table) -> None:
    instances = [{**ROW, "ad": ad} for ad in range(7)]
    context = {name: value for name, value in ROW.items() if name != "ad"}
    found = client.predict({"context": context, "candidates": [{"ad": ad} for ad in range(7)]})
    np.testing.assert_allclose(found, client.predict({"instances": instances}), rtol=1e-6)
    assert len(set(found)) > 1
    assert client.predict({"context": context, "candidates": []}) == []


def test_an_arrow_stream_has_the_same_predictions_as_a_stream(client: Client, rows: pa.Table, wanted: list[float]) -> None:
    for table in (rows, rows.append_column("more", rows.column("ad"))):
        response = client.post(PREDICT, stream(table), content_type=CONTENT_TYPE)
        assert (response.status, response.headers["content-type"]) == (200, CONTENT_TYPE)
        found = pa.ipc.open_stream(response.body).read_all()
        assert found.column_names == ["predicted_click"]
        np.testing.assert_allclose(found.column(0).to_pylist(), wanted, rtol=1e-6)


def test_the_types_of_an_arrow_stream_are_cast_to_the_models(client: Client, rows: pa.Table, wanted: list[float]) -> None:
    others = {
        "user": pa.dictionary(pa.int32(), pa.string()), "ad": pa.int8(), "day": pa.string(), "price": pa.float32(),
        "tags": pa.large_list(pa.large_string()),
    }  # fmt: skip
    for name, kind in others.items():
        column = rows.column(name)
        cast = column.combine_chunks().dictionary_encode() if name == "user" else column.cast(kind)
        table = rows.set_column(rows.column_names.index(name), name, cast)
        response = client.post(PREDICT, stream(table), content_type=CONTENT_TYPE)
        assert response.status == 200, response.body
        np.testing.assert_allclose(pa.ipc.open_stream(response.body).read_all().column(0).to_pylist(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("ad", [3, 3.0, "3", " 3 "]),
        ("mobile", [True, "true", 1]),
        ("price", [1.5, "1.5", "15e-1"]),
        ("day", ["2024-01-02", "2024-1-2"]),
        ("words", [{"w1": 2.0}, {"w1": "2"}, [["w1", 2]]]),
    ],
)
def test_a_value_may_be_written_in_any_way_that_its_column_can_be_cast_from(client: Client, name: str, ways: list[Any]) -> None:
    found = client.predict({"instances": [{**ROW, name: way} for way in ways]})
    assert len(set(found)) == 1
    assert found != client.predict({"instances": [{**ROW, name: None}]})


def test_of_a_string_column_every_way_of_writing_is_another_value() -> None:
    from xpsql.platform.serving.casts import cast_to

    cast = cast_to(pa.string())
    assert [cast(value) for value in (1, 1.0, "1", True, 1e7, 1.5e-5, 123456.5)] == [
        "1", "1.0", "1", "true", "1.0E7", "1.5E-5", "123456.5",
    ]  # fmt: skip


def test_a_double_becomes_the_text_that_sql_gives_it(session: xpsql.Session) -> None:
    from xpsql.platform.serving.casts import double_text

    values = [0.1, -1.0, 1e7, 9999999.0, 123456789.125, 1e-3, 9.5e-4, 1e22, -2.5e-10, 0.0]
    query = ", ".join(f"CAST(CAST('{value!r}' AS DOUBLE) AS STRING) AS c{at}" for at, value in enumerate(values))
    (row,) = session.sql(f"SELECT {query}").arrow().to_pylist()
    assert [double_text(value) for value in values] == list(row.values())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "ad",
            1.5,
            "Column ad, row 1: expected a whole number from -9223372036854775808 to 9223372036854775807 (bigint), got 1.5.",
        ),
        ("ad", "x", "got 'x'."),
        ("user", ["u"], "Column user, row 1: expected a string (string), got ['u']."),
        ("mobile", "perhaps", "Column mobile, row 1: expected true or false"),
        ("day", "yesterday", "Column day, row 1: expected a date such as '2013-01-31' (date)"),
        ("price", "dear", "Column price, row 1: expected a number (double), got 'dear'."),
        ("tags", "t1", "Column tags, row 1: expected an array (array<string>), got 't1'."),
        ("tags", ["t1", ["t2"]], "got ['t2'] as element 1."),
        ("words", ["w1"], "Column words, row 1: expected an object (map<string,float>), got ['w1']."),
        ("words", {"w1": "much"}, "got 'much' of key 'w1'."),
    ],
)
def test_an_error_names_the_column_the_row_and_what_was_expected(client: Client, name: str, value: Any, words: str) -> None:
    assert words in client.problem(PREDICT, {"instances": [ROW, {**ROW, name: value}]})


def test_a_column_that_a_row_lacks_is_no_null(client: Client) -> None:
    lacking = {name: value for name, value in ROW.items() if name != "ad"}
    assert client.problem(PREDICT, {"instances": [ROW, lacking]}) == "Row 1 lacks the column ad (bigint). Send null for NULL."
    both = {"context": {"ad": 1, "user": "u1"}, "candidates": [ROW]}
    assert "The column user is in the context and in candidates" in client.problem(PREDICT, both)
    assert "context does not go with instances" in client.problem(PREDICT, {"context": {}, "instances": [ROW]})


def test_names_are_compared_without_case(client: Client) -> None:
    upper = {name.upper(): value for name, value in ROW.items()}
    assert client.predict({"instances": [upper]}) == client.predict({"instances": [ROW]})


def test_a_column_in_two_cases_is_refused(client: Client) -> None:
    twice, others = {**ROW, "AD": 4}, {name: value for name, value in ROW.items() if name != "user"}
    message = "{} has the columns ad and AD, which are one: case means nothing. Leave one out."
    assert client.problem(PREDICT, {"instances": [twice]}) == message.format("Row 0 of instances")
    assert client.problem(PREDICT, {"instances": [ROW, twice]}) == message.format("Row 1 of instances")
    assert client.problem(PREDICT, {"context": {"user": "u1"}, "candidates": [{**others, "AD": 4}]}) == message.format(
        "Row 0 of candidates"
    )
    assert client.problem(PREDICT, {"context": {"ad": 1, "AD": 2}, "candidates": [{}]}) == message.format("context")


def test_limits_are_checked_before_a_body_is_parsed(served: Served) -> None:
    small = Client(Service(served, RequestLimits(body_bytes=2000, depth=4, rows=3), None, None, failing))
    assert "may have 2,000 bytes" in small.problem(PREDICT, b"[" * 3000, 413)
    assert "nested deeper than 4" in small.problem(PREDICT, b"[" * 1000)
    assert "may have 3 rows" in small.problem(PREDICT, {"instances": [{}] * 4}, 413)
    table = pa.table({"ad": [1] * 4})
    assert "may have 3 rows" in small.problem(PREDICT, stream(table), 413, content_type=CONTENT_TYPE)
    brackets = small.post(PREDICT, {"instances": [{**ROW, "user": "[[[[[["}]})
    assert brackets.status == 200, "brackets in strings are no nesting"


@pytest.mark.parametrize("escaped", ["", "\\n"])
def test_brackets_are_counted_outside_of_strings(client: Client, escaped: str) -> None:
    rows = [{**ROW, "user": f"]}}[[ {escaped}", "words": {"w{": 1}}] * 20
    assert len(client.predict({"instances": rows})) == 20
    deep = json.dumps({"instances": [{**ROW, "user": "]" * 99 + escaped}]}).replace('"tags": [', '"tags": ' + "[" * 17)
    assert "nested deeper than 16" in client.problem(PREDICT, deep.encode())


LONG = 1 << 20
DIGITS = json.dumps({"instances": [{**ROW, "price": "1" * LONG + "x"}]}).encode()


@pytest.mark.parametrize("body", [b"[" * 17 + b'"' + b'\\"' * LONG, DIGITS])
def test_a_body_is_refused_in_a_time_that_its_length_explains(client: Client, body: bytes) -> None:
    assert client.post(PREDICT, body).status == 400


def test_a_compressed_stream_is_refused(client: Client, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    assert "compressed" in client.problem(PREDICT, bytes(sink.getvalue()), content_type=CONTENT_TYPE)


def test_the_open_inference_protocol_tells_of_server_and_models(client: Client) -> None:
    assert json.loads(client.get("/v2").body)["name"] == "xpsql"
    assert json.loads(client.get("/v2/health/live").body) == {"live": True}
    assert json.loads(client.get("/v2/health/ready").body) == {"ready": True}
    assert json.loads(client.get("/v2/models/ctr/ready").body) == {"ready": True}
    reported = json.loads(client.get("/v2/models/ctr/versions/1").body)
    assert (reported["name"], reported["versions"], reported["platform"]) == ("ctr", ["1"], "xpsql")
    assert {"name": "ad", "datatype": "INT64", "shape": [-1]} in reported["inputs"]
    assert {"name": "tags", "datatype": "BYTES", "shape": [-1, -1]} in reported["inputs"]
    assert reported["outputs"] == [{"name": "predicted_click", "datatype": "FP64", "shape": [-1]}]
    for path in ("/v2/models/none", "/v2/models/ctr/versions/7", "/nothing"):
        assert client.get(path).status == 404
    assert client.get(INFER).status == 405


def infer_inputs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = {
        "user": "BYTES",
        "ad": "INT64",
        "mobile": "BOOL",
        "day": "BYTES",
        "price": "FP64",
        "words": "BYTES",
        "tags": "BYTES",
    }
    made = []
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        if name == "words":
            values = [json.dumps(value) for value in values]
        shape = [len(rows), 2] if name == "tags" else [len(rows)]
        made.append({"name": name, "shape": shape, "datatype": kind, "data": values})
    return made


def test_tensors_of_json_have_the_predictions_of_instances(client: Client, rows: pa.Table, wanted: list[float]) -> None:
    response = client.post(INFER, {"id": "42", "inputs": infer_inputs(as_json(rows))})
    answer = json.loads(response.body)
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("ctr", "1", "42")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("predicted_click", "FP64", [40])
    np.testing.assert_allclose(output["data"], wanted, rtol=1e-6)


def packed(values: list[str]) -> bytes:
    return b"".join(struct.pack("<I", len(value.encode())) + value.encode() for value in values)


def test_tensors_of_bytes_have_the_predictions_of_instances(client: Client, rows: pa.Table, wanted: list[float]) -> None:
    inputs, pieces = infer_inputs(as_json(rows)), []
    for tensor in inputs:
        values = tensor.pop("data")
        if tensor["datatype"] == "BYTES":
            data = packed([value for row in values for value in row] if tensor["name"] == "tags" else values)
        else:
            data = np.array(values, {"INT64": "<i8", "BOOL": "?", "FP64": "<f8"}[tensor["datatype"]]).tobytes()
        tensor["parameters"] = {"binary_data_size": len(data)}
        pieces.append(data)
    head = json.dumps(
        {"inputs": inputs, "outputs": [{"name": "predicted_click", "parameters": {"binary_data": True}}]}
    ).encode()
    response = client.post(INFER, b"".join([head, *pieces]), inference_header_content_length=str(len(head)))
    assert response.status == 200, response.body
    size = int(response.headers["inference-header-content-length"])
    assert json.loads(response.body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 8 * 40}
    np.testing.assert_allclose(np.frombuffer(response.body[size:], "<f8"), wanted, rtol=1e-6)


def test_a_tensor_of_one_row_holds_for_all(client: Client) -> None:
    inputs = infer_inputs([ROW])
    ads = [{"name": "ad", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]
    response = client.post(INFER, {"inputs": [tensor for tensor in inputs if tensor["name"] != "ad"] + ads})
    wanted = client.predict({"instances": [{**ROW, "ad": ad} for ad in (1, 2, 3)]})
    np.testing.assert_allclose(json.loads(response.body)["outputs"][0]["data"], wanted, rtol=1e-6)


def test_lengths_tell_how_many_elements_a_row_has(client: Client) -> None:
    two = [{**ROW, "tags": ["t1", "padding"]}, ROW]
    lengths = {"name": "tags.length", "shape": [2], "datatype": "INT32", "data": [1, 2]}
    response = client.post(INFER, {"inputs": [*infer_inputs(two), lengths]})
    wanted = client.predict({"instances": [{**ROW, "tags": ["t1"]}, ROW]})
    np.testing.assert_allclose(json.loads(response.body)["outputs"][0]["data"], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [2]}, "a shape of [2] has 2 values, got 1."),
        ({"datatype": "FP8"}, "Tensor ad: expected a datatype"),
        ({"shape": [1, 1, 1]}, "expected a shape [rows] or [rows, elements]"),
        ({"data": None}, "expected data, an array"),
        ({"parameters": {"binary_data_size": 8}}, "binary_data_size is 8, and 0 bytes are left"),
    ],
)
def test_a_tensor_that_is_none_is_refused(client: Client, change: dict[str, Any], words: str) -> None:
    inputs = [{**tensor, **change} if tensor["name"] == "ad" else tensor for tensor in infer_inputs([ROW])]
    assert words in client.problem(INFER, {"inputs": inputs})


def test_a_service_with_a_token_answers_nobody_else(served: Served) -> None:
    client = Client(Service(served, RequestLimits(), "sesame", None, failing))
    assert client.get("/v2/health/live").status == 200
    assert client.post("/v2/health/live", b"body", content_length="4").status == 401
    for headers in (
        {},
        {"authorization": "Bearer other"},
        {"authorization": "Basic sesame"},
        {"authorization": "Bearer ünlike"},
    ):
        response = client.get("/v2/models/ctr", **headers)
        assert (response.status, response.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get("/v2/models/ctr", authorization="Bearer sesame").status == 200


def test_metrics_count_requests_rows_and_latencies(served: Served) -> None:
    client = Client(Service(served, RequestLimits(), None, None, failing))
    client.predict({"instances": [ROW, ROW]})
    client.predict({"instances": [ROW]})
    client.problem(PREDICT, b"no json")
    lines = client.get("/metrics").body.decode().splitlines()
    assert 'xpsql_requests_total{model="ctr",status="200"} 2' in lines
    assert 'xpsql_requests_total{model="ctr",status="400"} 1' in lines
    assert 'xpsql_rows_total{model="ctr"} 3' in lines
    assert 'xpsql_request_seconds_bucket{model="ctr",le="+Inf"} 2' in lines
    assert 'xpsql_model_version{model="ctr"} 1' in lines
    assert any(line.startswith('xpsql_model_age_seconds{model="ctr"} ') for line in lines)


@pytest.mark.parametrize("count", [1, 2, 17, 200])
def test_a_network_scores_as_ml_predict_does(client: Client, session: xpsql.Session, count: int) -> None:
    data = f"SELECT user, ad, tags, price FROM log WHERE id < {count} ORDER BY id"
    wanted = session.sql(f"SELECT predicted_click FROM ML.PREDICT(MODEL deep, ({data}))").arrow().column(0).to_numpy()
    found = client.predict({"instances": session.sql(data).arrow().to_pylist()}, "deep")
    np.testing.assert_allclose(found, wanted, atol=1e-6)


NAMES = st.sampled_from([*COLUMNS, "w1"]) | st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
VALUES = st.dictionaries(st.sampled_from(COLUMNS), JSON, max_size=3).map(lambda changed: {**ROW, **changed})


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=3) | JSON, st.sampled_from(["instances", "candidates", "other"]))
def test_any_json_is_scored_or_refused(client: Client, rows: Any, name: str) -> None:
    response = client.post(PREDICT, json.dumps({name: rows}).encode())
    assert response.status in (200, 400), response.body


@settings(max_examples=60)
@given(st.binary(max_size=200), st.sampled_from([PREDICT, INFER]), st.sampled_from([CONTENT_TYPE, "application/json"]))
def test_any_bytes_are_refused(client: Client, body: bytes, path: str, kind: str) -> None:
    assert client.post(path, body, content_type=kind).status == 400


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_stream_is_scored_or_refused(client: Client, rows: pa.Table, data: st.DataObject) -> None:
    body = bytearray(stream(rows))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)) | st.just(len(body)))
    assert client.post(PREDICT, bytes(body[:cut]), content_type=CONTENT_TYPE).status in (200, 400, 413)


TENSORS = st.fixed_dictionaries(
    {"name": st.sampled_from([*COLUMNS, "tags.length"]), "shape": st.lists(st.integers(-1, 3), max_size=3)},
    optional={
        "datatype": st.sampled_from(["BYTES", "INT64", "FP32", "BOOL", "FP8"]) | JSON,
        "data": st.lists(JSON, max_size=4) | JSON,
        "parameters": JSON | st.fixed_dictionaries({"binary_data_size": st.integers(-1, 9)}),
    },
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(TENSORS, max_size=3), st.binary(max_size=16), JSON)
def test_any_tensors_are_scored_or_refused(client: Client, changed: list[dict[str, Any]], rest: bytes, outputs: Any) -> None:
    by_name = {tensor["name"]: tensor for tensor in infer_inputs([ROW])}
    request = {"inputs": list({**by_name, **{tensor["name"]: tensor for tensor in changed}}.values()), "outputs": outputs}
    head = json.dumps(request).encode()
    response = client.post(INFER, head + rest, inference_header_content_length=str(len(head)))
    assert response.status in (200, 400), response.body


def test_the_models_that_are_served_are_listed(client: Client) -> None:
    answer = client.get("/v1/models")
    assert answer.status == 200
    listed = json.loads(answer.body)["models"]
    assert {model["name"] for model in listed} >= {"ctr"}
    assert all(model["version"].isdecimal() for model in listed)

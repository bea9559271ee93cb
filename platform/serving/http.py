"""The HTTP layer: from a method, a path, headers and a body to a status, headers and a body. It contains no server."""

from __future__ import annotations

import functools
import hmac
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from ..errors import DataError, ModelError
from ..training.policies.policies import Policy
from . import arrow_stream, instances, tensors
from .explore import Choice, chosen
from .framing import has_body
from .loaded import Loaded
from .metrics import CONTENT_TYPE as METRICS
from .metrics import Requests
from .refusal import RequestError, RequestLimits
from .request_log import RequestLog
from .served import Served

JSON, BYTES = "application/json", "application/octet-stream"
PREDICT = re.compile(r"/v1/models/([^/:]+)(?:/versions/([0-9]{1,9}))?:predict")
MODEL = re.compile(r"/v2/models/([^/]+)(?:/versions/([0-9]{1,9}))?(/ready|/infer)?")
HEALTH = ("/v2/health/live", "/v2/health/ready")
EXTENSIONS = ("binary_tensor_data",)
WARMING_BYTES = 1 << 16
"""Larger bodies are not kept to warm up the next version."""


class Response(NamedTuple):
    """An answer of HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


class Scoring(NamedTuple):
    """An answered request for predictions; `table` gives its rows as columns of the version, for the log, and `choice` what was
    chosen of them where that was asked."""

    response: Response
    rows: int
    table: Callable[[], pa.Table]
    predictions: dict[str, pa.Array]
    choice: Choice | None = None


Row = dict[str, Any]
Fill = Callable[[list[Row], Row], tuple[list[Row], Row]]


def as_they_are(rows: list[Row], context: Row) -> tuple[list[Row], Row]:
    return rows, context


class Service:
    """Answers requests. Threads may share it.

    Args:
        token: what `Authorization: Bearer` must have, except for health checks; None: no token.
        log: receives a sample of the scored requests; None for none.
        broken: called while an internal error is handled.
        fill: fills the columns of histories and features in rows of JSON, and in their common part.
        policy: chooses among candidates where a request asks for it; None: no request may.
        counted: gives further metrics, lines of Prometheus' text format.
    """

    def __init__(
        self,
        served: Served,
        limits: RequestLimits,
        token: str | None,
        log: RequestLog | None,
        broken: Callable[[], None],
        fill: Fill = as_they_are,
        policy: Policy | None = None,
        counted: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.limits = limits
        self._served, self._token, self._log, self._broken, self._fill = served, token, log, broken, fill
        self._policy, self._requests, self._counted = policy, Requests(), counted

    def admit(self, path: str, headers: Mapping[str, str]) -> None:
        """Refuse a request by its head, before its body is taken; see `handle`.

        Raises:
            RequestError: the token is missing or another.
        """
        if self._token is None or (path in HEALTH and not has_body(headers)):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            raise RequestError(401, "This service requires its token: Authorization: Bearer <token>.")

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Answer a request that was admitted.

        Args:
            method: in upper case.
            path: without the query.
            headers: by name in lower case.
        """
        try:
            self.limits.check_body(len(body))
            if match := PREDICT.fullmatch(path):
                require(method, "POST")
                return self._score(unquote(match[1]), match[2], headers, body, protocol=1)
            match = MODEL.fullmatch(path)
            if match and match[3] == "/infer":
                require(method, "POST")
                return self._score(unquote(match[1]), match[2], headers, body, protocol=2)
            require(method, "GET", "HEAD")
            if match:
                loaded = self._served.find(unquote(match[1]), match[2])
                return json_response(200, {"ready": True} if match[3] else metadata(loaded))
            return self._general(path)
        except RequestError as error:
            return refused(error)
        except Exception:  # an internal error does not end the service; it is logged
            self._broken()
            return json_response(500, {"error": "The service failed to answer; its log says why."})

    def refuse(self, error: RequestError) -> Response:
        """Answer a request that is refused before its body is read."""
        return refused(error)

    def _general(self, path: str) -> Response:
        if path in HEALTH:
            return json_response(200, {path.rpartition("/")[2]: True})
        if path == "/v2":
            return json_response(200, {"name": "xpsql", "version": version("xpsql"), "extensions": list(EXTENSIONS)})
        if path == "/v1/models":
            listed = [{"name": one.model, "version": str(one.number)} for one in self._served.all()]
            return json_response(200, {"models": listed})
        if path == "/metrics":
            text = self._requests.text(self._served.all(), self._served.failures, self._served.failing)
            drift = [] if self._log is None else self._log.drift.lines()
            more = [f"{line}\n" for line in (*self._counted(), *drift)]
            return Response(200, {"content-type": METRICS}, "".join([text, *more]).encode())
        raise RequestError(
            404, "There is nothing here. Try /v1/models, /v1/models/<model>:predict, /v2/models/<model> or /metrics."
        )

    def _score(self, name: str, number: str | None, headers: Mapping[str, str], body: bytes, protocol: int) -> Response:
        began, model, rows, status = time.perf_counter(), "", 0, 500
        try:
            loaded = self._served.find(name, number)
            model = loaded.model
            scored = self._scored(loaded, headers, body, protocol)
            status, rows = scored.response.status, scored.rows
            if self._log is not None:
                self._log.offer(loaded, scored.table, scored.predictions, time.perf_counter() - began, scored.choice)
            if len(body) <= WARMING_BYTES:
                self._served.remember(loaded, lambda other: self._scored(other, headers, body, protocol))
            return scored.response
        except RequestError as error:
            status = error.status
            raise
        finally:
            self._requests.add(model, status, rows, time.perf_counter() - began)

    def _scored(self, loaded: Loaded, headers: Mapping[str, str], body: bytes, protocol: int) -> Scoring:
        return score(loaded, headers, body, protocol, self.limits, self._fill, self._policy)


def score(
    loaded: Loaded,
    headers: Mapping[str, str],
    body: bytes,
    protocol: int,
    limits: RequestLimits,
    fill: Fill,
    policy: Policy | None,
) -> Scoring:
    """Score the rows of a body.

    Raises:
        RequestError: its rows cannot be read or scored.
    """
    if (encoding := headers.get("content-encoding", "identity").lower()) != "identity":
        raise RequestError(415, f"The body is compressed ({encoding[:20]}); send it as it is.")
    try:
        if headers.get("content-type", "").partition(";")[0].strip().lower() == arrow_stream.CONTENT_TYPE:
            return score_stream(loaded, body, limits)
        if protocol == 1:
            return score_instances(loaded, body, limits, fill, policy)
        return score_tensors(loaded, headers, body, limits)
    except DataError as error:
        raise RequestError(400, str(error)) from error
    except ModelError as error:  # a file of the version, or of a history, was damaged while it was in use
        raise RequestError(503, str(error)) from error


def score_stream(loaded: Loaded, body: bytes, limits: RequestLimits) -> Scoring:
    stream = loaded.streams.read(body, limits)
    table, predictions = functools.partial(loaded.streams.table, stream), None
    if stream.order is not None and stream.batches:
        try:
            predictions = loaded.predict_batches(stream.batches, stream.order)
        except ValueError as error:
            raise arrow_stream.unreadable(error) from error
    if predictions is None:
        predictions = loaded.predict(table())
    response = Response(200, {"content-type": arrow_stream.CONTENT_TYPE}, arrow_stream.stream_of(predictions))
    return Scoring(response, stream.rows, table, predictions)


def score_instances(loaded: Loaded, body: bytes, limits: RequestLimits, fill: Fill, policy: Policy | None) -> Scoring:
    asked = instances.parsed(body, limits)
    rows, context = fill(*instances.split(asked, limits))
    context = loaded.timed(rows, context)
    table = functools.partial(instances.of_rows, rows, context, loaded.inputs)
    predictions = loaded.predict_objects(rows, context or None)
    if predictions is None:
        predictions = loaded.predict(table())
    said, choice = {**instances.answer(predictions), "model_version": str(loaded.number)}, None
    if "choose" in asked and (choice := chosen(asked, policy, loaded, predictions)) is not None:
        said |= choice.answer()
    return Scoring(json_response(200, said), len(rows), table, predictions, choice)


def score_tensors(loaded: Loaded, headers: Mapping[str, str], body: bytes, limits: RequestLimits) -> Scoring:
    request = tensors.request_of(body, headers.get(tensors.LENGTH_HEADER), limits)
    table = tensors.table_of(request, loaded.inputs, limits)
    predictions = loaded.predict(table)
    content, json_bytes = tensors.answer(request, predictions, loaded.model, loaded.number)
    own = {"content-type": JSON} if json_bytes is None else {"content-type": BYTES, tensors.LENGTH_HEADER: str(json_bytes)}
    return Scoring(Response(200, own, content), table.num_rows, lambda: table, predictions)


def metadata(loaded: Loaded) -> dict[str, Any]:
    """Return the model metadata of the Open Inference Protocol."""
    return {
        "name": loaded.model,
        "versions": [str(loaded.number)],
        "platform": "xpsql",
        "inputs": [
            {
                "name": column.name,
                "datatype": tensors.datatype(column.type),
                "shape": tensors.metadata_shape(column),
            }
            for column in loaded.inputs
        ],
        "outputs": [
            {"name": field.name, "datatype": "FP32", "shape": [-1, -1]}
            if pa.types.is_list(field.type)
            else {"name": field.name, "datatype": "INT64" if pa.types.is_int64(field.type) else "FP64", "shape": [-1]}
            for field in loaded.outputs
        ],
        "columns": instances.described(loaded.inputs),
    }


def require(method: str, *wanted: str) -> None:
    if method not in wanted:
        raise RequestError(405, f"This path answers {' and '.join(wanted)}, not {method[:10]}.")


def json_response(status: int, value: Mapping[str, Any] | Sequence[Any]) -> Response:
    return Response(status, {"content-type": JSON}, json.dumps(value).encode())


def refused(error: RequestError) -> Response:
    response = json_response(error.status, {"error": str(error)})
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response

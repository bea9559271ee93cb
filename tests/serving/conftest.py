"""Models that the tests of the service share, and what answers requests for them without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import xpsql
from xpsql.platform.images.overlay import weights_of
from xpsql.platform.progress import SilentReporter
from xpsql.platform.serving.http import Response, Service, refused
from xpsql.platform.serving.loaded import Loaded
from xpsql.platform.serving.refusal import RequestError, RequestLimits
from xpsql.platform.serving.served import Served
from xpsql.warehouse.version import Version

LOG = """
SELECT id, CAST(id % 3 = 0 AS INT) AS click, concat('u', id % 11) AS user, CAST(id % 7 AS BIGINT) AS ad, id % 2 = 0 AS mobile,
    date_add(DATE'2024-01-01', CAST(id % 5 AS INT)) AS day, CAST(id % 13 AS DOUBLE) / 3 AS price,
    array(concat('t', id % 4), concat('t', id % 6)) AS tags, map(concat('w', id % 3), CAST(id % 5 AS FLOAT)) AS words
FROM range(2000)
"""
COLUMNS = ("user", "ad", "mobile", "day", "price", "tags", "words")
ROW: dict[str, Any] = {
    "user": "u1", "ad": 3, "mobile": True, "day": "2024-01-02", "price": 1.5, "tags": ["t1", "t2"], "words": {"w1": 2.0},
}  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xpsql.Session]:
    with xpsql.connect(tmp_path_factory.mktemp("warehouse"), reporter=SilentReporter()) as session:
        session.sql(f"CREATE TABLE log AS {LOG}")
        session.sql("TRAIN MODEL ctr USING xftrl LABEL click IGNORE (id) AS SELECT * FROM log")
        session.sql(
            "TRAIN MODEL deep USING xnn (hidden = 4, dim = 2) LABEL click AS SELECT click, user, ad, tags, price FROM log"
        )
        yield session


def loaded_of(version: Version) -> Loaded:
    return Loaded(version, weights_of(version, False, (), print))


def failing() -> None:
    raise AssertionError("an error that no request should cause")


class Client:
    """Asks a service by its functions `admit` and `handle`."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def get(self, path: str, **headers: str) -> Response:
        return self.ask("GET", path, headers, b"")

    def post(self, path: str, body: Any, **headers: str) -> Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, {name.replace("_", "-"): value for name, value in headers.items()}, content)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Response:
        try:
            self.service.admit(path, headers)
        except RequestError as error:
            return refused(error)
        return self.service.handle(method, path, headers, body)

    def predict(self, body: Any, model: str = "ctr") -> Any:
        response = self.post(f"/v1/models/{model}:predict", body)
        assert response.status == 200, response.body
        return json.loads(response.body)["predictions"]

    def problem(self, path: str, body: Any, status: int = 400, **headers: str) -> str:
        response = self.post(path, body, **headers)
        assert response.status == status, response.body
        return str(json.loads(response.body)["error"])


@pytest.fixture(scope="module")
def served(session: xpsql.Session) -> Served:
    return Served(session.models, ["ctr", "deep"], None, print)


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return Client(Service(served, RequestLimits(), None, None, failing))

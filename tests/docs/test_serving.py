"""What docs/serving.md shows is what the service answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import xpsql
from tests.docs.blocks import ROOT
from xpsql.platform.serving.http import Service
from xpsql.platform.serving.refusal import RequestLimits
from xpsql.platform.serving.served import Served

ASKED = re.compile(r"^\$ curl -s localhost:8080(\S+) -d '(.*)'\n(.*)$", re.MULTILINE)
STATEMENTS = re.compile(r"```sql\n(CREATE TABLE log.*?)```", re.DOTALL)


def test_the_answers_of_the_page_are_those_of_the_service(session: xpsql.Session) -> None:
    text = Path(ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (statements,) = STATEMENTS.findall(text)
    session.sql(statements)
    service = Service(Served(session.models, ["ctr"], None, print), RequestLimits(), None, None, lambda: None)
    asked = ASKED.findall(text)
    assert len(asked) == 4
    for path, body, answer in asked:
        found = service.handle("POST", path, {}, body.encode()).body.decode()
        assert rounded(json.loads(found)) == rounded(json.loads(answer))


def rounded(value: object) -> object:
    """Return a value of JSON with its numbers as far as they are the same on any processor."""
    return json.loads(json.dumps(value), parse_float=lambda number: round(float(number), 5))

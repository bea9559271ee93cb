"""ML.OFF_POLICY: what a version would have earned on requests that another policy decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import StatementError
from ..base import Call, Keyword, Pending, TableFunction, column_of

if TYPE_CHECKING:
    from ..context import StatementContext
    from ..cursor import Cursor

CLIP = 20.0
COLUMNS = ("ACTION", "REWARD", "PROPENSITY", "CHOSEN", "REQUEST", "GROUP")


def read_policy(cursor: Cursor) -> Any:
    from ...training.policies.policies import Policy

    first = cursor.index
    text = cursor.string("a policy, such as 'greedy'")
    try:
        return Policy.of(text)
    except StatementError as error:
        raise error.at(cursor.span(first)) from None


def read_clip(cursor: Cursor) -> float:
    first = cursor.index
    clip = float(cursor.number())
    if not clip > 0:
        raise StatementError("CLIP expects the largest weight, a number above 0.", cursor.span(first))
    return clip


def read_options(cursor: Cursor) -> bool:
    overlap = False
    for name, value in cursor.options().items():
        if name != "overlap" or not isinstance(value.value, bool):
            raise StatementError("ML.OFF_POLICY takes only WITH (overlap = true).", value.position)
        overlap = value.value
    return overlap


def run(context: StatementContext, call: Call) -> Pending:
    from ...decisions.off_policy import SCHEMA, OffPolicy
    from ...training.policies.policies import Policy

    data, said = call.data, call.keywords
    assert data is not None  # required by the grammar
    columns = {word: said[word] for word in COLUMNS if word in said}
    version, policy = call.read(context), said.get("POLICY", Policy("greedy"))
    with data.locating():
        judged = OffPolicy(version, context.engine, data.text, columns, policy, said.get("CLIP", CLIP), said.get("WITH", False))

    def measure() -> Any:
        with data.locating():
            return judged.measure(call.folder, context.reporter)

    return Pending(SCHEMA, measure)


OFF_POLICY = TableFunction(
    "OFF_POLICY",
    "ML.OFF_POLICY(MODEL name [VERSION n], TABLE t | (query) [, REWARD column] [, REQUEST column] [, CHOSEN column] "
    "[, PROPENSITY column] [, ACTION column] [, GROUP column] [, POLICY 'greedy' | 'epsilon(e)' | 'softmax(t, floor = f)'] "
    "[, CLIP number] [, WITH (overlap = true)])",
    "What a version would have earned on requests that another policy decided: rows of candidates, with the reward of the one "
    "that was shown and the propensity of each, as xpsql serve --explore logs them (served_request, served_chosen, "
    "served_propensity; REWARD: the model's label). A row for each of ips, snips, dr and switch: value (the reward a request) "
    "with low and high, logged (of the log), gain with gain_low and gain_high, of 95 % of 1,000 bootstrap samples of requests, "
    "or of GROUP; requests, groups, effective_rows, max_weight, and unsupported, the share of the policy's decisions that the "
    "log could not have made. Weights are at most CLIP, 20; above it, switch uses the model's estimate. With fewer than 100 "
    "effective rows nothing is estimated.",
    "required",
    (),
    run,
    keywords=(
        *(Keyword(word, column_of) for word in COLUMNS),
        Keyword("POLICY", read_policy),
        Keyword("CLIP", read_clip),
        Keyword("WITH", read_options),
    ),
)

"""Algorithms as they were made before `learns`: with scores, link, loss and more side by side; accepted for one version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .learns import Online, Output, Packaged, Solved, Supervised, Unsupervised
from .losses import Loss

ORDER = ("tables", "optimizer", "scores", "link", "loss", "classifier", "standardised", "intercept", "baseline")
OF_LOSS = ("scores", "link", "loss", "classifier", "standardised", "baseline")
OF_LEARNING = ("random", "sampling", "negatives", "pairs", "solve", "learner", "embed")


class FormerArguments(type):
    """Lets an algorithm be made with those arguments, too."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        named = dict(zip(ORDER, args, strict=False)) | fields
        if "learns" in fields or isinstance(named.get("scores"), Online | Solved | Packaged):
            return super().__call__(*args, **fields)
        return super().__call__(**restated(named))


def restated(former: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that say the same now."""
    fields = {name: value for name, value in former.items() if name not in (*OF_LOSS, *OF_LEARNING)}
    value, link, scores = former["loss"], former["link"], former["scores"]
    loss = Loss(value, link, former.get("classifier", True), former.get("baseline"), former.get("standardised", False))
    if former.get("learner") is not None:
        return fields | {"learns": Packaged(former["learner"], loss)}
    if former.get("solve") is not None:
        return fields | {"learns": Solved(Supervised(scores, loss), former["solve"])}
    goal: Supervised | Unsupervised = Supervised(scores, loss)
    if former.get("embed") is not None:

        def objective(parameters: Any, inputs: Any) -> Any:
            found = scores(parameters, inputs)
            return value(found, inputs.label), link(found)

        goal = Unsupervised(objective)
        fields["outputs"] = {"vector": Output(former["embed"], vector=True)}
    augment = tuple(former[name] for name in ("sampling", "negatives", "pairs") if former.get(name) is not None)
    return fields | {"learns": Online(goal, former.get("random", False), augment)}

"""The metrics of several labels by name: in a manifest, in conditions, and label by label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

Values = dict[str, float | None]


def key(metric: str, label: str | None) -> str:
    """Return the name of a label's metric among the metrics of all labels; None: the first label's."""
    return metric if label is None else f"{metric}({label})"


def flat(by_label: Mapping[str, Values]) -> Values:
    """Return the metrics of several labels as one mapping; the number of examples is the same for all."""
    found: Values = {}
    for number, (label, values) in enumerate(by_label.items()):
        named = values if number == 0 else {key(name, label): value for name, value in values.items() if name != "examples"}
        found |= named
    return found


def divided(values: Mapping[str, float | None], labels: Sequence[str]) -> dict[str, Values]:
    """Undo `flat`: return the metrics by label; the first label's mapping has all that is no metric of another one."""
    others = {label: f"({label})" for label in labels[1:]}
    first = {name: value for name, value in values.items() if not name.endswith(tuple(others.values()))}
    found = dict.fromkeys(labels[:1], first)
    for label, end in others.items():
        mine = {name.removesuffix(end): value for name, value in values.items() if name.endswith(end)}
        found[label] = {**({"examples": values["examples"]} if "examples" in values else {}), **mine}
    return found


def metrics_schema(names: Iterable[str], several: bool) -> pa.Schema:
    """Return the columns of ML.EVALUATE: metrics by name, and before them the label where there are several."""
    types = [(name, pa.int64() if name == "examples" else pa.float64()) for name in names]
    return pa.schema([*([("label", pa.string())] if several else []), *types])

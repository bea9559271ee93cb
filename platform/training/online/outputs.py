"""What models say of examples."""

from __future__ import annotations

from typing import Any, NamedTuple


class Said(NamedTuple):
    """What a model says of examples.

    Attributes:
        predictions: float32[batch, num_labels]; None of one that learned without labels.
        outputs: by name, float32[batch], or float32[batch, k] of a vector.
    """

    predictions: Any
    outputs: dict[str, Any]

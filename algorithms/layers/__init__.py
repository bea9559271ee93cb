"""What networks are made of: lookups, poolings, activations, dense layers."""

from ...platform.system import require_native

require_native("_lookups", __name__)

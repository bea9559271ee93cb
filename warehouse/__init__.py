"""Models and exports in the warehouse."""

from ..platform.system import require_native

require_native("_mapping", __name__)

"""The parameter server."""

from ..system import require_native

require_native("_native", __name__)

"""The parameter server."""

from ..installed import require_native

require_native("_native", __name__)

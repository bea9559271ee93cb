"""Embeddings of PyTorch whose rows are in a parameter server (xpsql.ps); needs the extra `torch`."""

from __future__ import annotations

from .platform.errors import NotAvailableError

try:
    from .platform.parameters.embedding import Embedding as Embedding
    from .platform.parameters.embedding import EmbeddingBag as EmbeddingBag
    from .platform.parameters.embedding import needed as needed
    from .platform.parameters.embedding import pooled as pooled
    from .platform.parameters.embedding import saved as saved
    from .platform.parameters.pushes import step as step
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise NotAvailableError("xpsql.torch needs PyTorch: pip install 'xpsql[torch]'.") from error

__all__ = ["Embedding", "EmbeddingBag", "needed", "pooled", "saved", "step"]

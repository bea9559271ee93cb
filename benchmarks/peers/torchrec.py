"""The fused embeddings of TorchRec: its kernel, a table-batched embedding that updates itself by row-wise AdaGrad.

python -m benchmarks.peers.torchrec TRAIN TEST DIM BEGAN
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

from benchmarks.peers.pytorch import RATES, fit, network
from benchmarks.peers.rows import BUCKETS, Floats, Ids, main


def learn(ids: Ids, labels: Floats, dim: int) -> Callable[[Ids], Floats]:
    torch.manual_seed(7)
    slots = ids.shape[1]
    embedding = SplitTableBatchedEmbeddingBagsCodegen(
        [(BUCKETS, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        feature_table_map=[0] * slots,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATES[0],
        eps=1e-8,
    )
    embedding.init_embedding_weights_uniform(-0.017, 0.017)
    layers = network(slots * dim)

    def scores(batch: torch.Tensor) -> torch.Tensor:
        offsets = torch.arange(batch.numel() + 1)
        return layers(embedding(batch.T.reshape(-1), offsets))[:, 0]

    return fit(scores, [torch.optim.Adagrad(layers.parameters(), lr=RATES[1])], ids, labels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(learn)

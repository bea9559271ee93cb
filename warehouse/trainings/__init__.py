"""What a training keeps on the way: checkpoints, its progress, what it read of a stream, where it stays."""

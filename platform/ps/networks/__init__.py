"""Networks over vectors with ids that shards run: outputs are pulled, and gradients of outputs are pushed."""

"""What tables of edges become without a model: random walks, samples of neighbours."""

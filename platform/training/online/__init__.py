"""Learning batch by batch: workers that pull, step and push, in one process."""

"""Learning on an engine's tasks: driver, coordinator, shard tasks and worker tasks."""

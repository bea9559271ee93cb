"""Planning a training: what it takes on numbers of workers and shards, and which of them meet WITH (target = ...)."""

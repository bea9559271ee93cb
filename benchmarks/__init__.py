"""The figures that docs/benchmarks.md explains: `python -m benchmarks`."""

"""Measures the steps of large jobs on a simulated store, and derives the cost of jobs of 1 to 100 TB: `make scale` and docs/scale.md."""

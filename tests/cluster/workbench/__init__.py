"""The tools of the cluster tests: the operator installed from its chart, jobs to apply and watch, and data."""

"""What the tests on the cluster work with: the operator installed from its chart, jobs to apply and watch, and data."""

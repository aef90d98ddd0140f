"""`Job` and `AsyncJob`: describe a job, run it here, or submit it to a cluster and watch it there."""

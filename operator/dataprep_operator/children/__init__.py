"""The children of a job, as Kubernetes objects."""

"""The objects that the operator creates for a job."""

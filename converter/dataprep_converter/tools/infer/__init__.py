"""`dataprep infer`: drafts a job for files that people have."""

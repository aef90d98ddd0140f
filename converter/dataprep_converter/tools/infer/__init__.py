"""`dataprep infer`: drafts a job for the user's files."""

"""Process-level helpers: memory, forks, threads, retries, temporary files."""

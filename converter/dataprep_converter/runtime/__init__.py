"""The process: memory, forks, threads, retries, temporary files."""

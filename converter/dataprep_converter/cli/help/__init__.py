"""Commands that help to write jobs and commands."""

"""Commands that help users write jobs and commands."""

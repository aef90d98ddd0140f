"""Credentials for cloud stores."""

"""The API server: requests, their limit, Events, Kueue."""

"""Access to the API server: requests and their rate limit, Events, and Kueue."""

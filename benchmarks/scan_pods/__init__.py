"""Measures how much faster a scan becomes with more pods if the store limits the speed of each connection."""

"""Measures how much faster a scan gets with more pods, if the store limits the speed of each connection."""

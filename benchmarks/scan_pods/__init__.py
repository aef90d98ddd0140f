"""Measures how the time of a scan falls with the number of its pods, behind a store that limits the speed of each connection."""

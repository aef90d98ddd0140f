"""Tools for data sets: verify, repair, inspect, infer, convert, copy, and the HTML report."""

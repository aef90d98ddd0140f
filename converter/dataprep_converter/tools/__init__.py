"""Looking at data sets: verify, repair, inspect, infer, the HTML report."""

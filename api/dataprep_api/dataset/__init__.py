"""What is stored of a data set, and said of it: plan, reports, manifest, messages."""

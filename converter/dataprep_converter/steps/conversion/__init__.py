"""The steps of a job that reads and transforms records: plan, scan, shuffle, work and commit."""

"""The steps of a job, of each kind: plan, work, commit; and the run of all of them on one machine."""

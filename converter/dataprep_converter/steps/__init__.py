"""The steps of a job, for each kind of job: plan, work and commit. Also runs all of them on one machine."""

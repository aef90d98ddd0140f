"""The steps of a job (plan, work and commit), for each kind of job. `run.py` runs all steps on one machine."""

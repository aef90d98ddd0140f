"""A shuffle in two rounds: the first round divides the decoded records among the tasks, and the second round reads each task's records."""

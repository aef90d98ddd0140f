"""Leader election, and the controller that the leader runs."""

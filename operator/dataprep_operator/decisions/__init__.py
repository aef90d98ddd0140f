"""Pure functions from the observed state to the desired status and the next actions."""

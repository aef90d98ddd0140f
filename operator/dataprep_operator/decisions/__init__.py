"""Pure functions that compute the desired status and the next actions from the observed state."""

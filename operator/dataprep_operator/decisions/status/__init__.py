"""Pure functions that derive the next status from the previous status and the observed state."""

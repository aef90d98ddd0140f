"""One look at one object: observe, decide, write, act."""

"""The reconcilers. Each observes an object, decides, writes its status, and performs the actions."""

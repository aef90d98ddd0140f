"""The reconcilers. Each reconciler observes an object, decides, writes its status, and performs the actions."""

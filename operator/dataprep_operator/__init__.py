"""The operator: spec → children → status. kopf watches; one level-triggered reconcile decides."""

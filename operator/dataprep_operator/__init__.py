"""The operator. kopf watches the cluster, and one level-triggered reconcile function creates each job's children and writes its status."""

"""What is generated from the models: the CRDs, the page of fields and the page of reasons."""

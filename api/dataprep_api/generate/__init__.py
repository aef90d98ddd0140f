"""What is generated from the models: the CRDs and the page of reasons."""

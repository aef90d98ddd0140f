"""The generators of files from the models: the CRDs, the page of fields and the page of reasons."""

"""MosaicML's MDS format."""

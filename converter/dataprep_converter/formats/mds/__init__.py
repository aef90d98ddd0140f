"""MosaicML's MDS."""

"""MosaicML's format MDS."""

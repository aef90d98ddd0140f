"""Hadoop's formats: SequenceFile and MapFile, whose keys and values are Writables."""

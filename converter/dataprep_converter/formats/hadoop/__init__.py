"""SequenceFile and MapFile, of Writables."""

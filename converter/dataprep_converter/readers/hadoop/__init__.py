"""The reader of SequenceFiles."""

"""Output formats. Each format's encoder and decoder are in the same folder."""

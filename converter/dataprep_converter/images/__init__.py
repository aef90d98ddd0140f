"""Images: parsing of headers, decoding and resampling."""

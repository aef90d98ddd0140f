"""Images: headers, decoding, resampling."""

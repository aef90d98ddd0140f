"""Basic modules that all other packages use: errors, tensors, the native library, framing and digests."""

"""The base of all other packages: errors, tensors, the native library, framing, digests."""

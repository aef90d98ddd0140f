"""What everything stands on: errors, tensors, the native library, framing, digests."""

"""Inputs: access to stores, archives, ranged and streamed reading."""

"""Measures the operator's resource use and reaction times, on a real control plane with pods that kwok simulates. One row needs no
cluster (`one_look.py`)."""

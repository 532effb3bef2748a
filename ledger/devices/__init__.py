"""Devices of Dynamic Resource Allocation: what they are, what they cost, whether they are there (dra)."""

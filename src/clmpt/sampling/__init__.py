"""Sampling of answered queries: random walks, symmetries, checks, files.

The same seed gives the same queries, with any number of processes. Needs no torch.
"""

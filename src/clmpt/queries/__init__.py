"""Answered queries: as arrays in one file, in other projects' formats, as JSON lines.

Knows what a query's answers are, not where they come from. Needs no torch.
"""

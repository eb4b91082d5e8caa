"""Models for others: what a model is, a card that says so, and folders on a hub.

A folder from a hub was written by a stranger: only data files are fetched, and none is run.
"""

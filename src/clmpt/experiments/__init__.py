"""`fit` and `reproduce`: recipes, stages, plans, records.

Knows what is done and what is left to do. Does not know which model it trains: the registry finds
models by name.
"""

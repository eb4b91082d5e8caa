"""Which links are likely: a file per scoring function, objectives, imports, folders.

A predictor projects an entity along a relation and matches the result against all entities. Knows
nothing of queries.
"""

"""Link predictors: a file per scoring function, objectives, imports, checkpoints.

A predictor projects an entity along a relation and matches the result against all entities. Knows
nothing about queries.
"""

"""From a graph to a model, or to a paper's table: recipes, stages, plans, records.

Knows what was done before and what is left to do. Does not know which model it trains: models are
found by name in the registry.
"""

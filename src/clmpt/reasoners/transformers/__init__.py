"""Models that read a query as tokens: its constants, variables and relations, for a transformer.

They learn embeddings of their own, without a predictor, and need no tree: cycles and several atoms
between two variables are tokens like all others.
"""

"""Queries as values: formulas, parsers, SPARQL, normal form, operator tree, query graph.

Text in, values out. Knows no graph: names stay names until a graph resolves them.
"""

"""Exact answers to any SPARQL query, over a graph and all else that its RDF source said.

Whole columns of term ids are joined at once. No model, nothing printed.
"""

"""Models whose sets are fuzzy: a number for every entity, computed with the facts of the graph.

`fact_edges.py` has the facts for whole batches; `graph_layer.py` and `walked_edges.py` are what
GNN-QE passes messages with. Queries are trees of operators, as in `operators/`.
"""

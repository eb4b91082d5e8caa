"""Models that answer with set operators: one file each, and how their queries are batched.

A query is a tree of operators (project, intersect, unite, negate) over sets of entities, and a
model says what a set is, how the operators change it and how near an entity is to it.
`operator_model.py` and `set_model.py` are all that they share; `program.py` lays trees out.
"""

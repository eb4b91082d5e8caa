"""Knowledge graphs: names, triples in splits, an index over them, readers, writers.

Immutable and memory-mapped. Knows nothing about queries but their names. Needs no torch.
"""

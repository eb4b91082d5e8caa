"""Which answers are likely: models that score all entities, and the seam they share.

`model.py` is the seam; message passing, beam search and the exact solver are behind it. No file
outside this room knows any of them by name, except the registry.
"""

"""CLMPT and LMPNN, and how queries are laid out for them.

`clmpt.py` is the paper in one file; the others decide what is computed when, without changing any
answer.
"""

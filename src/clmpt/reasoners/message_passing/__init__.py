"""CLMPT and LMPNN, and how queries are batched for them.

`clmpt.py` is the paper in one file; the other files only optimise the computation and do not change
any answer.
"""

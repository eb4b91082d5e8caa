"""How values and long work show themselves in Python: HTML for notebooks, a bar for progress.

Knows nothing of what is shown. Every text is escaped: names are untrusted.
"""

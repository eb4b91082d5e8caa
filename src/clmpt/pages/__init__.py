"""Reports: tables, charts, pages.

Plain values in, text out. Does not look for runs: `experiments` does.
"""

"""What is shown of runs: tables, charts, pages.

Takes plain values and gives text. Does not look for runs: that is done in `experiments`.
"""

"""What each command does: a file for each, or for a few that belong together.

Their options are declared in `cli/options`, so that listing them loads nothing heavy.
"""

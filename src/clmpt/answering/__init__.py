"""What a user gets: questions in, answers out.

Knows folders that hold models. Does not train anything, and prints nothing.
"""

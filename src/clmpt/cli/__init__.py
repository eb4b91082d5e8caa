"""From a terminal: arguments in, library calls out.

The only room that prints. Each file holds the commands it is named after, or what they share;
nothing here computes anything that Python users could not call.
"""

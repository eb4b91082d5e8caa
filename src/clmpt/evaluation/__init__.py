"""How good answers are: filtered ranks, and the figures made of them.

One protocol for anything that scores entities. Knows nothing of how scores come about.
"""

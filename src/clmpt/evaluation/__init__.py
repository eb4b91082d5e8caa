"""Evaluation: filtered ranks, and the figures computed from them.

One protocol for anything that scores entities. Knows nothing about how scores are computed.
"""

"""Exact answers: plans, the engine that runs them, missing links, verification.

Planning is separate from execution: a plan is made once per shape, without a graph. Needs no torch.
"""

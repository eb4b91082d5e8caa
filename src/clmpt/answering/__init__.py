"""Answering with a trained model: questions in, answers out.

Knows the layout of model folders. Trains nothing and prints nothing.
"""

"""Reasoners: models that score all entities as answers, and the interface they share.

`model.py` is the interface to message passing, beam search and the exact solver. Outside this
package only the registry knows them by name.
"""

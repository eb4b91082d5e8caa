"""How good answers are: filtered ranks, and the figures made of them."""

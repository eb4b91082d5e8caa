"""CLMPT, LMPNN and how queries are laid out for them."""

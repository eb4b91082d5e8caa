"""How things are kept: files whole or not at all, run folders, no free unpickling."""

"""Arguments in, library calls out; the only room that prints."""

"""Answered queries: as arrays, as files of others and as JSON lines."""

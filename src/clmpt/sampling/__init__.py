"""How answered queries are made: walks, symmetries, judging, files."""

"""Ways to score every entity as the answer to a query, behind one protocol."""

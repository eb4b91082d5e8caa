"""What is known: knowledge graphs, how they are read, stored and written."""

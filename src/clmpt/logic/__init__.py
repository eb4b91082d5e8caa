"""What a question is: EFO-1 queries as values, and the texts they are written in."""

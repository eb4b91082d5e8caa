"""What follows from what is known: exact answers, benchmark queries and their difficulty."""

"""What a user gets: a model and its graph in memory, text in, answers out."""

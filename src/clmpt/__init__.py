"""Complex questions to incomplete knowledge graphs."""

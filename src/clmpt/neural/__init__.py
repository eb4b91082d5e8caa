"""What is likely: link predictors and reasoners. Never sees query text or a shape's name."""

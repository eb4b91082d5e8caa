"""Link predictors: one file per scoring function, what they share, and how they are trained."""

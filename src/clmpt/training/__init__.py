"""How models learn: steps, loops, runs that resume.

Knows a model only through `reasoners/model.py` and a predictor only through its objective. What a
step does depends only on the settings, the weights and the step's number.
"""

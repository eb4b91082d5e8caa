"""Training: steps, the loop, runs that resume.

Knows models only through `reasoners/model.py` and predictors only through their objective. A step
depends only on the settings, the weights and the step's number.
"""

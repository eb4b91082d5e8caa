"""Truth values: what follows from the facts and from a calibrated link predictor together.

Knows predictors, facts and plans. Knows no shape's name, and trains nothing by gradient descent.
"""

"""Complex query decomposition (CQD, Arakelyan et al. 2021): a link predictor judges the atoms of a
query, fuzzy logic joins the judgements, and the best values of its variables are searched for."""

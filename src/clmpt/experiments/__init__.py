"""From a graph to a model or to a paper's table: stages, plans and records."""

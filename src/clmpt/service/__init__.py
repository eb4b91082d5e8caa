"""From anywhere: graphs and models behind HTTP, as a SPARQL endpoint, as JSON and as a page.

It knows protocols, limits and pages. It refuses to know how answers are found.
"""

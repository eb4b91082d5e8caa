#!/bin/sh
# The question of the paper's first figure, drawn and asked, in logic and in SPARQL.
# Run from the repository's root: PATH="$PWD/.venv/bin:$PATH" sh examples/films.sh
set -eu

graph=films-graph
mizoguchi='directed("Kenji Mizoguchi", ?film) & "starred in"(?who, ?film)'
venice='won(?film, ?prize) & "awarded at"(?prize, "Venice Film Festival")'

heading() {
    printf '\n== %s\n\n' "$1"
}

# ask 'the question in words' 'the question as formula or SPARQL'
ask() {
    heading "$1"
    printf '%s\n\n' "$2"
    clmpt solve "$graph" "$2"
}

if [ -d "$graph" ]; then
    heading "The film graph is in $graph already; remove that folder to read it anew"
else
    heading "Reading the facts of examples/films.tsv (head, relation, tail) and storing them in $graph"
    clmpt import examples/films.tsv --out "$graph" >/dev/null
fi
tail -n 3 examples/films.tsv

heading "A question is a small graph of its own: ?who is asked for, ✗ marks what must not be"
clmpt draw "?who : $mizoguchi & !exists ?prize ($venice)"

ask "Who starred in films that Mizoguchi directed and that never won a prize at Venice?" \
    "?who : $mizoguchi & !exists ?prize ($venice)"

ask "The same question in SPARQL" \
    'SELECT ?who {
  :Kenji%20Mizoguchi :directed ?film . ?who :starred%20in ?film
  FILTER NOT EXISTS { ?film :won/:awarded%20at :Venice%20Film%20Festival }
}'

ask "Which films won a Golden Lion or a Silver Lion?" \
    '?film : won(?film, "Golden Lion") | won(?film, "Silver Lion")'

ask "Who worked with both Mizoguchi and Kurosawa?" \
    '?who : "starred in"(?who, ?one) & directed("Kenji Mizoguchi", ?one) &
  "starred in"(?who, ?other) & directed("Akira Kurosawa", ?other)'

heading "Try next (if 'clmpt' is not found, write .venv/bin/clmpt)"
cat <<'END'
What does the graph hold?
  clmpt info films-graph
Ask it something else:
  clmpt solve films-graph '?who : "starred in"(?who, Rashomon) & !"starred in"(?who, Ugetsu)'
Ask a graph of yours, three columns a line:
  clmpt import my-facts.tsv --out my-graph
Make questions with answers out of a graph:
  clmpt sample films-graph --shapes 2p 2i --count 5 --out questions.jsonl
The whole query language: docs/query-language.md
END

// What the question's text is made of: for colours, and for what can be completed at the cursor.

const SPARQL = /^\s*(#[^\n]*\n\s*)*(prefix|base|select|ask|construct|describe)\b/i;
export const isSparql = (text) => SPARQL.test(text);

const FORMULA = /(?<space>\s+)|(?<variable>\?[\p{L}\p{N}_]*)|(?<quoted>"(?:[^"\\]|\\.)*"?)|(?<iri><[^<>\s]*>?)|(?<name>[\p{L}\p{N}_/+@#$-][\p{L}\p{N}_/+@.:'*%~=-]*)|(?<sign>.)/gsu;
const QUERY = /(?<space>\s+)|(?<comment>#[^\n]*)|(?<variable>[?$][\p{L}\p{N}_]*)|(?<quoted>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?<iri><[^<>\s]*>?)|(?<name>[\p{L}\p{N}_]*:[\p{L}\p{N}_.%:\\-]*|[\p{L}_][\p{L}\p{N}_-]*)|(?<sign>.)/gsu;
const WORDS = new Set(["and", "or", "not", "exists"]);
const QUERY_WORDS = /^(select|ask|construct|describe|where|filter|optional|union|minus|not|exists|prefix|base|limit|offset|order|by|desc|asc|distinct|values|bind|as|group|having|count|a)$/i;

// [{kind, text, start}], all of the text in order
export function tokens(text) {
  const [pattern, isWord] = isSparql(text)
    ? [QUERY, (word) => QUERY_WORDS.test(word)]
    : [FORMULA, (word) => WORDS.has(word.toLowerCase())];
  return [...text.matchAll(pattern)].map((match) => {
    const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    const word = kind === "name" && isWord(match[0]) ? "word" : kind;
    return { kind: word, text: match[0], start: match.index };
  });
}

// What is being written at the cursor: {start, end, text, kind}, or null if nothing can be completed.
export function writingAt(text, cursor) {
  const all = tokens(text);
  const at = all.findIndex((one) => one.start < cursor && cursor <= one.start + one.text.length);
  const own = all[at];
  if (!own || !["name", "word", "quoted", "iri", "variable"].includes(own.kind)) return null;
  const end = own.start + own.text.length;
  if (own.kind === "quoted" && own.text.length > 1 && own.text.endsWith('"') && cursor === end) return null;
  if (own.kind === "iri" && own.text.endsWith(">") && cursor === end) return null;
  const written = text.slice(own.start, cursor).replace(/^["'<]/, "");
  const place = { start: own.start, end, text: written.replace(/^[^:]*:/, isSparql(text) ? "" : "$&") };
  if (own.kind === "variable") return { ...place, kind: "variable" };
  return { ...place, kind: isSparql(text) ? null : placeOf(all.slice(0, at)) };
}

// In a formula: after a relation's parenthesis or a comma is an entity, elsewhere a relation.
function placeOf(before) {
  const solid = before.filter((one) => one.kind !== "space");
  const last = solid.at(-1);
  if (last?.text === ",") return "entity";
  const named = solid.at(-2);
  const applied = named && ["name", "quoted", "iri"].includes(named.kind);
  return last?.text === "(" && applied ? "entity" : "relation";
}

// The place of line and column, which count from one, and how long the token there is.
export function spanAt(text, { line, column }) {
  const lines = text.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  const own = tokens(text).find((one) => one.start <= start && start < one.start + one.text.length);
  const end = own && own.kind !== "space" ? own.start + own.text.length : start + 1;
  return [Math.min(start, Math.max(0, text.length - 1)), Math.min(Math.max(end, start + 1), Math.max(text.length, 1))];
}

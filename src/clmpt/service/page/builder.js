// Questions by choosing: conditions one below the other, each with two things and a relation.

import { get, later, Latest } from "./api.js";
import { h } from "./dom.js";
import { Suggestions } from "./suggestions.js";

const ANSWER = "?x";
const OTHERS = ["?y", "?z", "?w"];
let numbered = 0;

const variable = (text) => ({ kind: "variable", label: text === ANSWER ? "the answer" : `something (${text})`, formula: text });

export class Builder {
  constructor(place, model, changed) {
    Object.assign(this, { place, model, changed });
    this.rows = [emptyRow()];
    this.#show();
  }

  get isEmpty() {
    return this.rows.every((row) => !row.relation && row.head?.kind !== "entity" && row.tail?.kind !== "entity");
  }

  // The question so far, of the conditions that are complete.
  get text() {
    const complete = this.rows.filter((row) => row.head && row.relation && row.tail);
    if (!complete.length) return "";
    const parts = complete.map((row, at) =>
      `${at ? (row.join === "or" ? " | " : " & ") : ""}${row.negated ? "!" : ""}${row.relation.formula}(${row.head.formula}, ${row.tail.formula})`);
    return `${ANSWER} : ${parts.join("")}`;
  }

  // From a question that was read, if conditions can say it; whether they can.
  take(read) {
    const rows = read && read.variables.length === 1 ? rowsOf(read) : null;
    if (rows) {
      this.rows = rows;
      this.#show();
    }
    return Boolean(rows);
  }

  clear() {
    this.rows = [emptyRow()];
    this.#show();
  }

  #show() {
    const add = (text, join, negated) => h("button", {
      type: "button", onclick: () => {
        this.rows.push({ ...emptyRow(), join, negated });
        this.#show();
        [...this.place.querySelectorAll(".condition .relation input")].at(-1).focus();
      },
    }, text);
    this.place.replaceChildren(
      h("p", { class: "quiet" }, "Find ", h("strong", {}, "the answer"), " such that"),
      ...this.rows.map((row, at) => this.#condition(row, at)),
      h("div", { class: "adding" }, add("+ and", "and", false), add("+ and not", "and", true), add("+ or", "or", false)));
  }

  #condition(row, at) {
    const joins = { and: "and", not: "and not", or: "or" };
    const chosen = row.negated ? "not" : row.join;
    const join = at
      ? h("select", { "aria-label": "How it is joined", onchange: (event) => {
          row.join = event.target.value === "or" ? "or" : "and";
          row.negated = event.target.value === "not";
          this.#changed();
        } }, Object.entries(joins).map(([value, text]) => h("option", { value, selected: value === chosen }, text)))
      : null;
    const field = (part, kind, hint) => this.#field(row, part, kind, hint, at);
    return h("div", { class: "condition", role: "group", "aria-label": `Condition ${at + 1}` },
      join, field("head", "entity", "thing"), field("relation", "relation", "relation"), field("tail", "entity", "thing"),
      this.rows.length > 1
        ? h("button", { type: "button", class: "plain", "aria-label": `Remove condition ${at + 1}`, onclick: () => {
            this.rows.splice(at, 1);
            this.#show();
            this.#changed();
          } }, "✕")
        : null);
  }

  #field(row, part, kind, hint, at) {
    const list = h("ul", { class: "suggestions", role: "listbox", id: `choices-${++numbered}`, "aria-label": hint, hidden: true });
    const input = h("input", {
      role: "combobox", "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list", autocomplete: "off",
      placeholder: hint, "aria-label": `${{ head: "First thing", relation: "Relation", tail: "Second thing" }[part]} of condition ${at + 1}`,
      value: row[part]?.label ?? "",
    });
    const offered = new Suggestions(input, list, (one) => {
      row[part] = one;
      input.value = one.label;
      this.#changed();
    });
    const latest = new Latest();
    const look = async () => {
      const text = input.value.trim();
      const own = kind === "entity" ? variablesIn(this.rows).filter((one) => !text || one.label.includes(text.toLowerCase()) || one.formula.startsWith(text)) : [];
      const names = text || kind === "relation"
        ? await latest.run((signal) => get("complete", { text, kind, model: this.model(), limit: 8 }, signal)).catch(() => null)
        : { found: [] };
      if (!names || document.activeElement !== input) return;
      const things = names.found.map((one) => ({ ...one, note: one.name === one.label ? "" : one.name }));
      offered.show([...things, ...own], Boolean(text));
    };
    const soon = later(60, look);
    input.addEventListener("input", () => {
      row[part] = null;
      this.#changed();
      soon();
    });
    input.addEventListener("focus", () => {
      input.select();
      if (!row[part]) soon();
    });
    input.addEventListener("keydown", (event) => {
      if (!offered.key(event) && event.key === "ArrowDown") soon();
    });
    input.addEventListener("blur", () => {
      offered.hide();
      if (!row[part]) input.value = "";
    });
    return h("div", { class: `combo ${part}` }, input, list);
  }

  #changed() {
    this.changed(this.text);
  }
}

const emptyRow = () => ({ join: "and", negated: false, head: variable(ANSWER), relation: null, tail: null });

// The answer, what is used already, and one more.
function variablesIn(rows) {
  const used = rows.flatMap((row) => [row.head?.formula, row.tail?.formula]).filter((text) => OTHERS.includes(text));
  const free = OTHERS.find((text) => !used.includes(text));
  return [ANSWER, ...new Set(used), ...(free ? [free] : [])].map((text) => ({ ...variable(text), note: "" }));
}

function rowsOf(read) {
  const own = read.alternatives.flatMap((one) => one.nodes.filter((node) => node.kind === "variable").map((node) => node.id));
  const others = [...new Set(own)];
  if (others.length > OTHERS.length) return null;
  const called = new Map([[`?${read.variables[0]}`, ANSWER], ...others.map((id, at) => [id, OTHERS[at]])]);
  const rows = [];
  for (const { nodes, edges } of read.alternatives) {
    if (!sayable(nodes, edges)) return null;
    const term = (id) => {
      const node = nodes.find((one) => one.id === id);
      return node.kind === "entity" ? { kind: "entity", label: node.label, formula: id } : variable(called.get(id));
    };
    edges.forEach((edge, at) => rows.push({
      join: at || !rows.length ? "and" : "or",
      negated: edge.negated,
      head: term(edge.head),
      relation: { kind: "relation", label: edge.label, formula: edge.relation },
      tail: term(edge.tail),
    }));
  }
  return rows;
}

// A negated part must be one condition about what occurs elsewhere.
function sayable(nodes, edges) {
  const held = new Set(edges.filter((edge) => !edge.negated).flatMap((edge) => [edge.head, edge.tail]));
  const isThing = (id) => nodes.find((one) => one.id === id).kind === "entity";
  return edges.every((edge) => !edge.negated || (
    edges.filter((one) => one.group === edge.group).length === 1 && [edge.head, edge.tail].every((id) => held.has(id) || isThing(id))));
}

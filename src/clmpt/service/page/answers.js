// The answers: what follows from the facts beside what is likely.

import { badge, count, h, mark, name, percent } from "./dom.js";
import { exporting } from "./exporting.js";

const SHOWN = 200;

// found: {text, variables, exact, likely, notes, known, hasModel}
export class AnswersView {
  constructor(place, atLeast, moved, open) {
    Object.assign(this, { place, atLeast, moved, open, found: null });
  }

  waiting() {
    this.place.hidden = false;
    this.place.setAttribute("aria-busy", "true");
    const lines = () => h("div", { class: "card waiting" }, [1, 2, 3, 4].map(() => h("span", {})));
    this.place.replaceChildren(h("div", { class: "columns" }, lines(), lines()));
  }

  hide() {
    this.place.hidden = true;
    this.place.replaceChildren();
  }

  show(found) {
    this.found = found;
    this.place.hidden = false;
    this.place.setAttribute("aria-busy", "false");
    this.summary = h("p", { class: "summary" });
    this.likelyPlace = h("section", { class: "card", "aria-labelledby": "likely-title" });
    const columns = [this.#exact()];
    if (found.hasModel) columns.push(this.likelyPlace);
    this.place.replaceChildren(
      h("div", { class: "toolbar" }, this.summary, h("span", { class: "grow" }), found.hasModel ? this.#slider() : null, exporting(this)),
      ...found.notes.map((note) => h("p", { class: "note" }, note)),
      h("div", { class: `columns${found.hasModel ? "" : " single"}` }, columns),
    );
    if (found.hasModel) this.#likely();
    this.#summarise();
  }

  showTables(tables) {
    this.place.setAttribute("aria-busy", "false");
    this.place.replaceChildren(h("div", { class: `columns${tables.length > 1 ? "" : " single"}` }, tables));
  }

  // What is listed now, in order: for the export and for going from one answer to the next.
  get listed() {
    return [...this.found.exact, ...this.#sure];
  }

  get #sure() {
    return this.found.likely.filter((one) => one.probability === null || one.probability >= this.atLeast());
  }

  #summarise() {
    const number = (status, all) => all.filter((one) => one.status === status).length;
    const { exact } = this.found;
    const parts = [["known", number("known", exact)], ["hidden", number("hidden", exact)], ["predicted", this.#sure.length]];
    this.summary.replaceChildren(...parts.filter(([, n]) => n).map(([status, n]) =>
      h("span", { class: `badge ${status}` }, mark(status), `${count(n)} ${status}`)));
  }

  #slider() {
    const shown = h("output", { for: "sure" }, percent(this.atLeast()));
    const field = h("input", {
      type: "range", id: "sure", min: 0, max: 100, step: 1, value: Math.round(100 * this.atLeast()),
      oninput: (event) => {
        this.moved(Number(event.target.value) / 100);
        shown.textContent = percent(this.atLeast());
        this.#likely();
        this.#summarise();
      },
    });
    return h("label", { class: "slider", for: "sure" }, "At least", field, shown);
  }

  #exact() {
    const { exact, known } = this.found;
    const title = h("h2", { id: "exact-title" }, "From the facts", h("small", {}, "what any triple store would say"));
    if (!exact.length) {
      return h("section", { class: "card", "aria-labelledby": "exact-title" }, title, h("p", { class: "empty" }, "Nothing follows from the facts alone."));
    }
    const more = known > exact.length ? h("p", { class: "quiet" }, `The first ${count(exact.length)} of ${count(known)}.`) : null;
    return h("section", { class: "card", "aria-labelledby": "exact-title" }, title, this.#list(exact, "Answers from the facts"), more);
  }

  #likely() {
    const sure = this.#sure;
    const chances = sure.map((one) => one.probability ?? 0);
    const right = chances.reduce((a, b) => a + b, 0);
    const title = h("h2", { id: "likely-title" }, "Likely", h("small", {}, "although a fact is missing"));
    const parts = [title];
    if (sure.length) {
      parts.push(this.#list(sure.slice(0, SHOWN), "Likely answers"));
      if (sure[0].probability !== null) {
        const about = right < 1 ? "fewer than one" : `about ${count(Math.round(right))}`;
        parts.push(h("p", { class: "quiet" }, `Of ${sure.length === 1 ? "this one" : `these ${count(sure.length)}`}, ${about} can be expected to be right.`));
      }
    } else if (this.found.likely.length) {
      const best = this.found.likely[0];
      parts.push(h("p", { class: "empty" }, `Nothing more is at least ${percent(this.atLeast())} likely. The likeliest is `, name(best.label), `, ${percent(best.probability ?? 0)}.`));
    } else {
      parts.push(h("p", { class: "empty" }, "The model predicts nothing more."));
    }
    this.likelyPlace.replaceChildren(...parts);
  }

  #list(answers, label) {
    return h("ol", { class: "answers", "aria-label": label }, answers.map((one) => h("li", {}, this.#item(one))));
  }

  #item(one) {
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
    bar.firstChild.style.width = `${100 * (one.probability ?? 0)}%`;
    const chance = one.status === "known" || one.probability === null ? null : h("span", { class: "chance" }, bar, percent(one.probability));
    const words = (one.row ?? [one]).map((cell, at) => [at ? h("span", { class: "quiet" }, " · ") : null, name(cell.label)]);
    return h("button", { type: "button", class: `answer ${one.status}`, onclick: () => this.open(one) },
      h("span", { class: "what" }, words), chance, badge(one.status));
  }
}

// The rows of a SPARQL query that is more than a question about things.
export function table(title, hint, found, empty) {
  const names = found.head?.vars ?? [];
  if (found.boolean !== undefined) {
    return h("section", { class: "card" }, h("h2", {}, title, h("small", {}, hint)), h("p", { class: "verdict" }, found.boolean ? "Yes" : "No"));
  }
  const rows = found.results.bindings;
  const cell = (term) => (term ? name(shortIri(term)) : "");
  return h("section", { class: "card" },
    h("h2", {}, title, h("small", {}, hint)),
    rows.length
      ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
          h("table", {},
            h("thead", {}, h("tr", {}, names.map((one) => h("th", { scope: "col" }, one)))),
            h("tbody", {}, rows.slice(0, SHOWN).map((row) => h("tr", {}, names.map((one) => h("td", {}, cell(row[one]))))))))
      : h("p", { class: "empty" }, empty),
    rows.length > SHOWN ? h("p", { class: "quiet" }, `The first ${SHOWN} of ${count(rows.length)}.`) : null);
}

function shortIri(term) {
  if (term.type !== "uri" || !term.value.startsWith("urn:clmpt:")) return term.value;
  try {
    return decodeURIComponent(term.value.slice("urn:clmpt:".length));
  } catch {
    return term.value;
  }
}

// The question box: coloured as one types, names completed, mistakes marked where they are.

import { get, later, Latest } from "./api.js";
import { $, h, tell } from "./dom.js";
import { Suggestions } from "./suggestions.js";
import { isSparql, spanAt, tokens, writingAt } from "./tokens.js";

export class Editor {
  // `changed` is called with the text while it is written, `ask` when it is to be asked.
  constructor(model, changed, ask) {
    this.field = $("question");
    this.mirror = $("mirror");
    this.model = model;
    this.changed = changed;
    this.error = null;
    this.latest = new Latest();
    this.list = new Suggestions(this.field, $("suggestions"), (one) => this.#insert(one));
    this.#completeSoon = later(60, () => this.#complete());
    this.field.addEventListener("input", () => this.#written());
    this.field.addEventListener("scroll", () => { this.mirror.scrollTop = this.field.scrollTop; });
    this.field.addEventListener("blur", () => this.list.hide());
    this.field.addEventListener("click", () => this.list.hide());
    this.field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (this.outdated && event.key === "Enter") this.list.hide(); // it is of an earlier text
      if (this.list.key(event)) return;
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        ask();
      } else if (event.key === " " && event.ctrlKey) {
        event.preventDefault();
        this.#complete();
      }
    });
  }

  #completeSoon;

  get isCompleting() {
    return this.list.isOpen;
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    this.field.value = value;
    this.error = null;
    this.list.hide();
    this.#paint();
  }

  // Marks the place of a mistake; null removes the mark.
  mark(position) {
    this.error = position ? spanAt(this.text, position) : null;
    this.field.setAttribute("aria-invalid", String(Boolean(position)));
    this.#paint();
  }

  // Puts a name in the place of the mistake.
  correct(name) {
    if (!this.error) return;
    const plain = isSparql(this.text) ? `:${encodeURIComponent(name)}` : JSON.stringify(name);
    this.field.setRangeText(plain, ...this.error, "end");
    this.#written();
    this.field.focus();
  }

  #written() {
    this.error = null;
    this.outdated = true;
    this.#paint();
    this.changed(this.text);
    this.#completeSoon();
  }

  #paint() {
    const [from, to] = this.error ?? [-1, -1];
    const parts = tokens(this.text).flatMap(({ kind, text, start }) => {
      const cuts = [0, from - start, to - start, text.length].filter((at) => at >= 0 && at <= text.length);
      const places = [...new Set(cuts)].sort((a, b) => a - b);
      return places.slice(0, -1).map((at, number) => {
        const wrong = start + at >= from && start + at < to;
        return h("span", { class: `${kind}${wrong ? " wrong" : ""}` }, text.slice(at, places[number + 1]));
      });
    });
    const after = this.error && from >= this.text.length ? h("span", { class: "wrong" }, " ") : null;
    this.mirror.replaceChildren(...parts, ...(after ? [after] : []), "\u200b");
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 320)}px`;
  }

  async #complete() {
    const place = writingAt(this.text, this.field.selectionStart);
    if (!place || (place.kind !== "variable" && !place.text)) {
      this.latest.cancel();
      this.list.hide();
      return;
    }
    const found = place.kind === "variable" ? this.#variables(place) : await this.#names(place);
    if (!found || document.activeElement !== this.field) return;
    this.place = place;
    this.outdated = false;
    const exact = found.some((one) => one.label.toLowerCase() === place.text.toLowerCase());
    this.list.show(found, !exact);
    if (found.length) tell(`${found.length} names; arrow keys choose, Enter takes one.`);
    this.#moveList(place.start);
  }

  async #names(place) {
    const asked = { text: place.text, kind: place.kind, model: this.model(), limit: 8 };
    const found = await this.latest.run((signal) => get("complete", asked, signal)).catch(() => null);
    return found && found.found.map((one) => ({ ...one, note: one.name === one.label ? one.kind : one.name }));
  }

  #variables(place) {
    const others = tokens(this.text).filter((one) => one.kind === "variable" && one.start !== place.start && one.text.length > 1);
    const names = [...new Set(others.map((one) => one.text))].filter((text) => text.startsWith(this.text.slice(place.start, this.field.selectionStart)));
    return names.map((label) => ({ kind: "variable", label, formula: label, sparql: label }));
  }

  #moveList(start) {
    const range = document.createRange();
    const walker = document.createTreeWalker(this.mirror, NodeFilter.SHOW_TEXT);
    let node = walker.nextNode(), before = 0;
    while (node && before + node.length <= start) {
      before += node.length;
      node = walker.nextNode();
    }
    if (!node) return;
    range.setStart(node, start - before);
    range.collapse(true);
    const [at, frame] = [range.getBoundingClientRect(), this.mirror.getBoundingClientRect()];
    const most = Math.max(0, frame.width - this.list.list.offsetWidth);
    this.list.list.style.left = `${Math.min(at.left - frame.left, most)}px`;
    this.list.list.style.top = `${at.bottom - frame.top + 6}px`;
  }

  #insert(one) {
    const { start, end } = this.place;
    const written = isSparql(this.text) ? one.sparql : one.formula;
    const rest = this.text.slice(end);
    const opening = one.kind === "relation" && !isSparql(this.text) && !/^\s*\(/.test(rest) ? "(" : "";
    this.field.setRangeText(written + opening, start, end, "end");
    this.#written();
    this.list.hide();
  }
}

// One answer: the facts behind it, and its neighbourhood to wander through.

import { get, Latest } from "./api.js";
import { $, badge, count, h, name, percent, shortened } from "./dom.js";
import { drawStar, drawWithin } from "./drawing.js";

const AROUND = { wide: 12, narrow: 8 }; // facts in a drawing; the list below has more

export class Details {
  constructor(model, hasModel) {
    Object.assign(this, { model, hasModel, dialog: $("details"), latest: new Latest(), walk: new Latest() });
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.dialog.addEventListener("close", () => {
      this.latest.cancel();
      this.walk.cancel();
    });
  }

  // `listed` are all answers, to go on to the next.
  open(answer, listed, question) {
    Object.assign(this, { listed, question, at: listed.indexOf(answer) });
    this.#show();
    if (!this.dialog.open) this.dialog.showModal();
  }

  #show() {
    const one = this.listed[this.at];
    const go = (step, text, sign) => h("button", {
      type: "button", class: "plain", "aria-label": text, disabled: !this.listed[this.at + step],
      onclick: () => { this.at += step; this.#show(); },
    }, sign);
    const chance = one.status === "known" || one.probability === null ? null : h("strong", {}, percent(one.probability));
    this.why = h("section", { "aria-labelledby": "why" });
    this.around = h("section", { "aria-labelledby": "around" });
    const cells = one.row ?? [one];
    this.dialog.replaceChildren(
      h("header", {},
        h("h2", { id: "details-title", tabindex: "-1" }, cells.map((cell, at) => [at ? " · " : null, name(cell.label)])),
        h("p", { class: "row" }, badge(one.status), chance, h("span", { class: "grow" }),
          go(-1, "Previous answer", "‹"), go(1, "Next answer", "›"),
          h("button", { type: "button", class: "plain", "aria-label": "Close", onclick: () => this.dialog.close() }, "✕"))),
      this.why, this.around);
    this.trail = [cells[0]];
    if (this.hasModel() && cells.length === 1) this.#explain(one);
    this.#walkTo(cells[0]);
  }

  // --- evidence -----------------------------------------------------------------------------------

  async #explain(one) {
    const title = h("h3", { id: "why" }, "Why");
    this.why.replaceChildren(title, h("p", { class: "quiet" }, "Looking for the facts behind it …"));
    try {
      const asked = { question: this.question, entity: `#${one.id}`, model: this.model() };
      const found = await this.latest.run((signal) => get("explain", asked, signal));
      if (!found) return;
      this.#derivations(title, one, found.derivations);
    } catch (error) {
      this.why.replaceChildren(title, h("p", { class: "problem" }, error.message));
    }
  }

  #derivations(title, one, found) {
    if (!found.length) {
      this.why.replaceChildren(title, h("p", { class: "empty" }, "The model's score rests on no chain of facts that could be shown."));
      return;
    }
    const place = h("div", {});
    const choices = h("div", { class: "choices", role: "group", "aria-label": "Derivations" });
    const show = (at) => {
      [...choices.children].forEach((button, number) => button.setAttribute("aria-pressed", String(number === at)));
      place.replaceChildren(this.#drawn(one, found[at].atoms), this.#listedAtoms(found[at].atoms));
    };
    found.forEach((derivation, at) => choices.append(
      h("button", { type: "button", onclick: () => show(at) }, `${at + 1}`, h("small", {}, percent(derivation.value)))));
    this.why.replaceChildren(title, found.length > 1 ? choices : "", place);
    show(0);
  }

  #drawn(one, atoms) {
    const labels = [...new Set([one.label, ...atoms.flatMap((atom) => [atom.head, atom.tail])])];
    const used = new Set(atoms.flatMap((atom) => [atom.head, atom.tail]));
    const nodes = labels.filter((label) => used.has(label)).map((label) =>
      ({ id: label, label, kind: label === one.label ? "answer" : "entity" }));
    const edges = atoms.map((atom) => ({ ...atom, label: atom.relation }));
    const root = used.has(one.label) ? one.label : nodes[0].id;
    const choose = (box) => this.#walkTo({ label: box.label, name: box.label });
    return h("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "Evidence, drawn" },
      drawWithin(this.dialog.clientWidth - 60, nodes, edges, root, { choose, title: "Evidence" }));
  }

  #listedAtoms(atoms) {
    const said = (atom) => {
      if (atom.negated && atom.status === "hidden") return "but a held-out fact says so";
      const sure = atom.probability === null ? "" : `, ${percent(atom.probability)}`;
      if (atom.negated) return `no such fact${sure ? `${sure} sure` : ""}`;
      return atom.status === "predicted" ? `predicted${sure}` : atom.status;
    };
    return h("ul", { class: "atoms" }, atoms.map((atom) =>
      h("li", { class: atom.negated ? "negated" : atom.status },
        atom.negated ? h("em", {}, "not: ") : null,
        name(atom.head), " ", h("span", { class: "relation" }, name(atom.relation)), " ", name(atom.tail),
        h("small", {}, said(atom)))));
  }

  // --- the neighbourhood --------------------------------------------------------------------------

  async #walkTo(entity) {
    const known = this.trail.findIndex((one) => one.label === entity.label);
    this.trail = known < 0 ? [...this.trail, entity] : this.trail.slice(0, known + 1);
    const title = h("h3", { id: "around" }, "Around it");
    try {
      const asked = { entity: entity.id === undefined ? entity.name : `#${entity.id}`, model: this.model(), limit: 200 };
      const found = await this.walk.run((signal) => get("graph/neighbours", asked, signal));
      if (found) this.around.replaceChildren(title, this.#path(), this.#star(found), this.#facts(found));
    } catch (error) {
      this.around.replaceChildren(title, this.#path(), h("p", { class: "problem" }, error.message));
    }
  }

  #path() {
    return h("nav", { "aria-label": "Way here" }, h("ol", { class: "trail" }, this.trail.map((one, at) =>
      h("li", {}, at === this.trail.length - 1
        ? h("span", { "aria-current": "true" }, name(shortened(one.label, 40)))
        : h("button", { type: "button", class: "link", onclick: () => this.#walkTo(one) }, name(shortened(one.label, 40)))))));
  }

  #star(found) {
    const width = Math.max(300, this.dialog.clientWidth - 80);
    const most = AROUND[width < 480 ? "narrow" : "wide"];
    const relations = [...new Set(found.facts.map((fact) => fact.relation))];
    const each = Math.max(1, Math.floor(most / Math.max(1, relations.length)));
    const some = relations.flatMap((one) => found.facts.filter((fact) => fact.relation === one).slice(0, each)).slice(0, most);
    return h("div", { class: "drawing", tabindex: 0, role: "region", "aria-label": "Neighbourhood, drawn" },
      drawStar(found.entity, some, (box) => this.#walkTo(box), width));
  }

  #facts(found) {
    const groups = new Map();
    for (const fact of found.facts) {
      const outward = fact.head.id === found.entity.id;
      const key = `${outward ? "" : "← "}${fact.relation}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push([outward ? fact.tail : fact.head, fact.status]);
    }
    const link = ([other, status]) => h("li", {},
      h("button", { type: "button", class: "link", onclick: () => this.#walkTo(other) }, name(other.label)),
      status === "hidden" ? badge("hidden") : null);
    return h("div", { class: "facts" },
      h("p", { class: "quiet" }, `${count(found.total)} ${found.total === 1 ? "fact" : "facts"}${found.total > found.facts.length ? `, the first ${found.facts.length} of them` : ""}`),
      [...groups].map(([relation, others]) => [h("h4", {}, name(relation)), h("ul", {}, others.map(link))]));
  }
}

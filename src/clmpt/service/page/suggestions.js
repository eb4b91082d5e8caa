// A list of names below a text field; the field keeps the focus.

import { h, name } from "./dom.js";

export class Suggestions {
  constructor(field, list, choose) {
    Object.assign(this, { field, list, choose, offered: [], chosen: -1 });
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  }

  get isOpen() {
    return !this.list.hidden;
  }

  // `first` says whether Enter takes the first one.
  show(offered, first = true) {
    this.offered = offered;
    this.list.hidden = !offered.length;
    if (this.field.getAttribute("role") === "combobox") this.field.setAttribute("aria-expanded", String(this.isOpen));
    this.list.replaceChildren(...offered.map((one, at) =>
      h("li", { role: "option", id: `${this.list.id}-${at}`, class: one.kind, onclick: () => this.take(at) },
        h("span", { class: "what" }, name(one.label)),
        h("small", {}, one.note ?? one.kind))));
    this.mark(first && offered.length ? 0 : -1);
  }

  hide() {
    this.show([]);
  }

  mark(at) {
    this.chosen = at;
    [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    if (at < 0) this.field.removeAttribute("aria-activedescendant");
    else {
      this.field.setAttribute("aria-activedescendant", `${this.list.id}-${at}`);
      this.list.children[at].scrollIntoView({ block: "nearest" });
    }
  }

  take(at) {
    const one = this.offered[at];
    this.hide();
    this.choose(one);
  }

  // Whether the key was for the list.
  key(event) {
    if (!this.isOpen) return false;
    const number = this.offered.length;
    if (event.key === "ArrowDown") this.mark((this.chosen + 1) % number);
    else if (event.key === "ArrowUp") this.mark((this.chosen + number) % (number + 1) - (this.chosen <= 0 ? 0 : 1));
    else if (event.key === "Escape") this.hide();
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && this.chosen >= 0) this.take(this.chosen);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}

// The answers as files, and the question as a link, for a shell and for Python.

import { h, tell } from "./dom.js";

export function exporting(view) {
  const menu = h("details", { class: "menu" }, h("summary", {}, "Export"));
  const item = (text, act) => h("li", {}, h("button", { type: "button", onclick: () => { act(); menu.open = false; } }, text));
  menu.append(h("ul", {},
    item("CSV file", () => save("answers.csv", "text/csv", csv(view.listed, view.found.variables))),
    item("JSON file", () => save("answers.json", "application/json", JSON.stringify({ question: view.found.text, answers: view.listed }, null, 2))),
    item("Copy link", () => copy(location.href, "The link is copied.")),
    item("Copy for curl", () => copy(curl(view), "The command is copied.")),
    item("Copy for Python", () => copy(python(view), "The lines are copied."))));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  return menu;
}

const cell = (value) => {
  let text = String(value ?? "");
  if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`; // a spreadsheet would run it
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function csv(answers, variables) {
  const several = variables.length > 1;
  const head = several ? variables : ["label", "name"];
  const rows = answers.map((one) => [
    ...(several ? one.row.map((part) => part.name) : [one.label, one.name]),
    one.probability, one.status,
  ]);
  return [[...head, "probability", "status"], ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const base = () => new URL(".", location.href).href.replace(/\/$/, "");

function parameters(view) {
  const found = { question: view.found.text, at_least: view.atLeast() };
  return view.model() ? { ...found, model: view.model() } : found;
}

function curl(view) {
  const words = Object.entries(parameters(view)).map(([key, value]) => `--data-urlencode ${quoted(`${key}=${value}`)}`);
  return `curl -G ${base()}/ask ${words.join(" ")}`;
}

function python(view) {
  const { question, ...rest } = parameters(view);
  const more = Object.entries(rest).map(([key, value]) => `, ${key}=${JSON.stringify(value)}`).join("");
  return [
    "from clmpt.service.client import ServiceClient",
    "",
    `client = ServiceClient(${JSON.stringify(base())})`,
    `found = client.ask(${JSON.stringify(question)}${more})`,
    "",
  ].join("\n");
}

function save(file, type, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  tell(`Saved as ${file}.`);
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    tell(said);
  } catch { // not every page may write to the clipboard: show it, to be copied by hand
    const area = h("textarea", { readonly: true, rows: 6, "aria-label": "To copy", value: text });
    const dialog = h("dialog", { class: "copying", "aria-label": "To copy" }, area,
      h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    area.select();
  }
}

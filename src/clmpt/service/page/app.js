// The page: what is asked, what is shown, and the address that brings both back.

import { showAbout } from "./about.js";
import { AnswersView, table } from "./answers.js";
import { get, later, Latest } from "./api.js";
import { Builder } from "./builder.js";
import { Details } from "./details.js";
import { $, count, h, tell } from "./dom.js";
import { drawQuestion } from "./drawing.js";
import { Editor } from "./editor.js";
import { isSparql } from "./tokens.js";

const SURE = 0.1; // the least probability of what is listed, unless the user moves it
const EXACT = 200, LIKELY = 100; // answers asked for

const state = { models: [], model: null, atLeast: SURE, read: null, usual: null, search: "" };
const reading = new Latest(), answering = new Latest();

const chosen = () => (state.model === state.usual ? null : state.model);
const hasModel = () => state.models.find((one) => one.name === state.model)?.kind === "model";

const complain = later(900, (found) => {
  if (!editor.isCompleting) refuse(found);
});
const readSoon = later(150, () => read());
const editor = new Editor(chosen, readSoon, ask);
const builder = new Builder($("build"), chosen, (text) => {
  editor.text = text;
  if (text) read();
});
const details = new Details(chosen, hasModel);
const answers = new AnswersView($("results"), () => state.atLeast, (value) => {
  state.atLeast = value;
  remember(false);
}, (one) => details.open(one, answers.listed, editor.text));
answers.model = chosen;

// --- the question ---------------------------------------------------------------------------------

// What the question means, or what is wrong with it: told at once if it is asked, else when the
// writer pauses.
async function read(isAsked = false) {
  const text = editor.text;
  complain.cancel();
  readSoon.cancel();
  if (!text.trim()) {
    understand(null);
    return null;
  }
  try {
    const found = await reading.run((signal) => get("parse", { question: text, model: chosen() }, signal));
    if (!found) return null;
    if (!found.error || found.rows) understand(found.rows ? null : found);
    else if (isAsked) refuse(found);
    else complain(found);
    return found;
  } catch (error) {
    answers.hide();
    refuse({ error: error.message });
    return null;
  }
}

function understand(found) {
  state.read = found;
  editor.mark(null);
  problem("");
  $("reading").hidden = !found;
  if (found) draw(found);
}

function refuse(found) {
  state.read = null;
  $("reading").hidden = true;
  problem(found.error);
  editor.mark(found.position ?? null);
  if (!found.position) return;
  const instead = (name) => h("button", { type: "button", class: "link", onclick: () => {
    editor.correct(name);
    read(true);
  } }, h("bdi", {}, name));
  $("problem").append(...(found.near ?? []).map(instead));
}

function draw(found) {
  $("reading").hidden = false;
  $("drawing").replaceChildren(...drawQuestion(found.alternatives, $("drawing").clientWidth - 16));
  $("formula").textContent = found.query;
  $("sparql").textContent = found.sparql;
}

function problem(text) {
  $("problem").textContent = text;
}

// --- the answers ----------------------------------------------------------------------------------

async function ask({ remembered = true } = {}) {
  const text = editor.text.trim();
  if (!text) {
    problem("Write a question, or choose one below.");
    editor.field.focus();
    return;
  }
  if (remembered) remember(true);
  const meant = await read(true);
  if (!meant) return;
  if (meant.error && !meant.rows) {
    answers.hide();
    return;
  }
  answers.waiting();
  document.body.classList.add("asked");
  tell("Asking …");
  try {
    const found = await answering.run((signal) => (meant.rows ? tables(text, signal) : asked(text, signal)));
    if (!found) return;
    if (meant.rows) answers.showTables(found);
    else answers.show(found);
    tell(meant.rows ? "Answered." : `${count(found.exact.length)} answers from the facts, ${count(found.likely.length)} likely.`);
  } catch (error) {
    answers.hide();
    problem(error.message);
    tell("");
  }
}

async function asked(text, signal) {
  const question = { question: text, model: chosen() };
  if (!hasModel()) {
    const exact = await get("ask", { ...question, limit: EXACT }, signal);
    return { ...shared(text, exact), exact: exact.answers, likely: [], hasModel: false };
  }
  const [exact, likely] = await Promise.all([
    get("ask", { ...question, only: "known", limit: EXACT }, signal),
    get("ask", { ...question, only: "predicted", limit: LIKELY }, signal),
  ]);
  return { ...shared(text, exact), exact: exact.answers, likely: likely.answers, hasModel: true };
}

const shared = (text, found) => ({ text, variables: found.variables, notes: found.notes, known: found.known });

// SPARQL that says more than a question about things: as rows.
async function tables(query, signal) {
  const accept = "application/sparql-results+json";
  const asked = { query, model: chosen() };
  const exact = await get("sparql", asked, signal, accept);
  if (!exact.head) throw new Error("A query that makes triples shows nothing here. Send it to /sparql instead.");
  const shown = [table("From the facts", "what any triple store would say", exact, "No rows.")];
  if (hasModel()) {
    try {
      const likely = await get("likely/sparql", { ...asked, "at-least": state.atLeast }, signal, accept);
      shown.push(table("Likely", "although a fact is missing", likely, "No rows."));
    } catch (error) {
      if (error.name === "AbortError") throw error;
      shown.push(h("section", { class: "card" }, h("h2", {}, "Likely"), h("p", { class: "empty" }, error.message)));
    }
  }
  return shown;
}

// --- the address ----------------------------------------------------------------------------------

function remember(isNew) {
  const found = new URLSearchParams();
  if (chosen()) found.set("model", state.model);
  if (editor.text) found.set("question", editor.text);
  if (state.atLeast !== SURE) found.set("at-least", String(state.atLeast));
  const address = `${location.pathname}${found.size ? `?${found}` : ""}${location.hash}`;
  if (isNew && address !== location.pathname + location.search + location.hash) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  state.search = location.search;
}

async function restore() {
  state.search = location.search;
  const given = new URLSearchParams(state.search);
  const wanted = given.get("model");
  state.model = state.models.some((one) => one.name === wanted) ? wanted : state.usual;
  $("model").value = state.model;
  const sure = Number(given.get("at-least") ?? SURE);
  state.atLeast = sure >= 0 && sure <= 1 ? sure : SURE;
  editor.text = given.get("question") ?? "";
  answers.hide();
  document.body.classList.remove("asked");
  if (editor.text) await ask({ remembered: false });
  else await read();
}

async function turn() {
  const isAbout = location.hash === "#about";
  $("ask-view").hidden = isAbout;
  $("about-view").hidden = !isAbout;
  for (const [id, own] of [["to-ask", !isAbout], ["to-about", isAbout]]) {
    if (own) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  document.title = isAbout ? `About ${state.model}` : "clmpt";
  if (isAbout) {
    try {
      await showAbout($("about-view"), state.model);
    } catch (error) {
      $("about-view").replaceChildren(h("p", { class: "card problem" }, error.message));
    }
  }
}

// --- the rest -------------------------------------------------------------------------------------

async function examples() {
  const list = $("examples");
  try {
    const found = await get("examples", { model: chosen() });
    list.hidden = !found.questions.length;
    list.querySelector("ul").replaceChildren(...found.questions.map((text) =>
      h("li", {}, h("button", { type: "button", class: "example", onclick: () => pose(text) }, h("bdi", {}, text)))));
  } catch {
    list.hidden = true;
  }
}

async function pose(text) {
  editor.text = text;
  await ask();
  if (!$("build").hidden) builder.take(state.read);
}

function choose(tab) {
  const building = tab === "build";
  for (const name of ["write", "build"]) {
    $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
    $(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    $(name).hidden = name !== tab;
  }
  $("keys").hidden = building;
  if (!building || !editor.text.trim()) return;
  if (!builder.take(state.read)) {
    builder.clear();
    problem("This question says more than the builder can show. What you build replaces it.");
  }
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(dark));
}

function listen() {
  $("go").addEventListener("click", () => ask());
  for (const name of ["write", "build"]) {
    $(`tab-${name}`).addEventListener("click", () => choose(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = name === "write" ? "build" : "write";
      choose(other);
      $(`tab-${other}`).focus();
    });
  }
  $("model").addEventListener("change", () => {
    state.model = $("model").value;
    remember(true);
    restore();
    examples();
    turn();
  });
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme !== "dark";
    theme(dark);
    localStorage.setItem("clmpt-theme", dark ? "dark" : "light");
  });
  addEventListener("popstate", () => {
    if (location.search !== state.search) restore(); // else it is only another part of the page
  });
  addEventListener("hashchange", turn);
}

async function start() {
  const kept = localStorage.getItem("clmpt-theme");
  theme(kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  listen();
  try {
    state.models = (await get("models")).models;
  } catch (error) {
    problem(error.message);
    return;
  }
  state.usual = state.models[0].name;
  $("model").replaceChildren(...state.models.map((one) => h("option", { value: one.name }, one.name)));
  $("model-choice").hidden = state.models.length < 2;
  await restore();
  examples();
  turn();
}

start();

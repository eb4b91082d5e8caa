// Elements from plain values. Texts become text nodes, never markup, so a name cannot run anything.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, properties = {}, ...children) =>
  fill(document.createElement(tag), properties, children);

export const s = (tag, properties = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

// A name of the graph: of any script, in any direction.
export const name = (text) => h("bdi", { title: text.length > 60 ? text : null }, text);

export function tell(text) {
  $("told").textContent = text;
}

export function percent(probability) {
  if (probability > 0 && probability < 0.005) return "under 1 %";
  if (probability < 1 && probability >= 0.995) return "over 99 %";
  return `${Math.round(100 * probability)} %`;
}

export const count = (number) => number.toLocaleString("en");

// By grapheme, so that an emoji is not cut in two.
const letters = new Intl.Segmenter();

export function shortened(text, most) {
  if (text.length <= most) return text;
  const found = [...letters.segment(text)].map((one) => one.segment);
  return found.length <= most ? text : `${found.slice(0, most - 1).join("")}…`;
}

const SHAPES = {
  known: () => [s("circle", { cx: 8, cy: 8, r: 6 })],
  hidden: () => [s("circle", { cx: 8, cy: 8, r: 5.5, class: "ring" }), s("path", { d: "M8 2.500a5.500 5.500 0 0 1 0 11z" })],
  predicted: () => [s("circle", { cx: 8, cy: 8, r: 5.5, class: "ring dashed" })],
};

export const MEANING = {
  known: "follows from the facts",
  hidden: "true, but held out from training",
  predicted: "not in the facts",
};

// A shape for each status, so that colour is not needed to tell them apart.
export const mark = (status) =>
  s("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: `mark ${status}`, "aria-hidden": "true" }, SHAPES[status]());

export const badge = (status) =>
  h("span", { class: `badge ${status}`, title: MEANING[status] }, mark(status), status);

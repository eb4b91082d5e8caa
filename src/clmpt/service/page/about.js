// What is known of a model: its graph, its figures by shape, how well its probabilities hold.

import { get } from "./api.js";
import { count, h, name, s } from "./dom.js";

export async function showAbout(place, model) {
  const found = await get(`models/${encodeURIComponent(model)}`);
  const rows = [
    ["entities", count(found.entities)],
    ["relations", count(found.relations)],
    ["facts", count(found.facts)],
    ...splits(found.splits),
    ...(found.about ?? []),
  ];
  place.replaceChildren(
    h("h1", {}, name(found.name)),
    h("p", { class: "lead" }, found.kind === "model"
      ? "A model of a graph: it answers from the facts, and from what it has learnt from them."
      : "A graph without a model: answers follow from its facts, and nothing is predicted."),
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, "What it is"),
        h("dl", {}, rows.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]))),
      found.reliability?.length ? reliability(found.reliability) : ""),
    found.figures?.length ? figures(found.figures) : "",
    h("section", { class: "card" }, h("h2", {}, "For programs"),
      h("ul", { class: "links" },
        [["sparql", "SPARQL endpoint: exact answers"], ["likely/sparql", "SPARQL endpoint: likely answers"], ["openapi.json", "the JSON interface, described"]]
          .map(([path, text]) => h("li", {}, h("a", { href: path }, `/${path}`), ` ${text}`)))),
  );
}

function splits(found) {
  const names = Object.entries(found);
  return names.length > 1 ? [["of them", names.map(([split, number]) => `${count(number)} ${split}`).join(", ")]] : [];
}

const hundredths = (value) => (100 * value).toFixed(1);

function figures(all) {
  const [own] = all;
  const most = Math.max(...all.flatMap((one) => one.shapes.map((shape) => shape.mrr)), 0.01);
  const bar = (value) => {
    const made = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
    made.firstChild.style.width = `${(100 * value) / most}%`;
    return made;
  };
  const other = (one, shape) => one.shapes.find((row) => row.shape === shape)?.mrr;
  return h("section", { class: "card" },
    h("h2", {}, "How good it is", h("small", {}, "on questions whose answers need facts that were held out")),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures by shape" },
      h("table", { class: "figures" },
        h("caption", {}, "Mean reciprocal rank × 100 of the missing answers, by shape of the question"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "shape"), all.map((one) => h("th", { scope: "col" }, one.reasoner)), h("th", { scope: "col" }, "questions"))),
        h("tbody", {},
          own.shapes.map((shape) => h("tr", {},
            h("th", { scope: "row" }, shape.shape),
            all.map((one, at) => {
              const value = other(one, shape.shape);
              return h("td", {}, value === undefined ? "–" : hundredths(value), at || value === undefined ? null : bar(value));
            }),
            h("td", {}, count(shape.queries)))),
          h("tr", { class: "mean" }, h("th", { scope: "row" }, "mean"), all.map((one) => h("td", {}, hundredths(one.mean))), h("td", {}))))));
}

function reliability(all) {
  const [whole] = all;
  const size = 260, left = 44, top = 12;
  const x = (share) => left + size * share, y = (share) => top + size * (1 - share);
  const most = Math.max(...whole.bins.map((bin) => bin.count));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => [
    s("text", { x: x(share), y: top + size + 18, class: "tick middle" }, `${100 * share}`),
    s("text", { x: left - 8, y: y(share) + 4, class: "tick end" }, `${100 * share}`),
    s("path", { d: `M${left} ${y(share)}h${size}`, class: "grid" }),
  ]);
  const diagram = s("svg", { viewBox: `0 0 ${left + size + 16} ${top + size + 44}`, class: "diagram", role: "img", "aria-label": "Reliability diagram; its numbers are in the table below" },
    ticks,
    s("path", { d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}`, class: "ideal" }),
    s("polyline", { points: whole.bins.map((bin) => `${x(bin.said)},${y(bin.true)}`).join(" "), class: "line" }),
    whole.bins.map((bin) => s("circle", { cx: x(bin.said), cy: y(bin.true), r: 3 + 9 * Math.sqrt(bin.count / most), class: "dot" },
      s("title", {}, `said ${hundredths(bin.said)} %, true ${hundredths(bin.true)} %, ${count(bin.count)} answers`))),
    s("text", { x: left + size / 2, y: top + size + 38, class: "tick middle" }, "said to be likely, per cent"),
    s("text", { transform: `translate(12 ${top + size / 2}) rotate(-90)`, class: "tick middle" }, "true, per cent"));
  return h("section", { class: "card" },
    h("h2", {}, "Can its probabilities be trusted?", h("small", {}, "on the diagonal they hold exactly")),
    diagram,
    h("p", { class: "quiet" }, `They are off by ${hundredths(whole.error)} points on average, over ${count(whole.count)} predictions.`),
    h("details", {}, h("summary", {}, "The numbers"),
      h("table", {},
        h("thead", {}, h("tr", {}, ["said", "true", "predictions"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, whole.bins.map((bin) => h("tr", {}, h("td", {}, `${hundredths(bin.said)} %`), h("td", {}, `${hundredths(bin.true)} %`), h("td", {}, count(bin.count))))))));
}

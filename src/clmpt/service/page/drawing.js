// Graphs as SVG: questions, evidence, neighbourhoods. The root is where the answer is; everything
// else is in layers by its distance from it.

import { h, s, shortened, percent } from "./dom.js";

const LETTER = 7.3; // the width of an average letter, in pixels
const HEIGHT = 32; // of a node
const LONGEST = 26; // letters of a node's text
const LABEL = 22; // letters of an edge's text

// nodes: [{id, label, kind}], edges: [{head, tail, label, status, negated, probability}]
export function drawGraph(nodes, edges, root, { vertical = false, choose = null, title = "" } = {}) {
  const boxes = new Map(nodes.map((node) => [node.id, boxOf(node)]));
  const layers = layersFrom(root, [...boxes.keys()], edges);
  place(layers, boxes, edges, vertical);
  const lines = () => edges.map((edge, at) => line(edge, boxes, bend(edges, at), vertical));
  return picture(boxes, lines, title, choose);
}

// Boxes that have their places, and the lines between them, which are made once these are final.
function picture(boxes, makeLines, title, choose) {
  const all = [...boxes.values()];
  const [width, height] = shift(all);
  const lines = makeLines();
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group", "aria-label": title },
    arrows(),
    lines.map((one) => one.path),
    all.map((box) => drawnBox(box, choose)),
    lines.map((one) => one.text),
  );
}

function boxOf(node, most = LONGEST) {
  const text = shortened(node.label, most);
  return { ...node, text, width: Math.max(44, LETTER * text.length + 26), x: 0, y: 0 };
}

function layersFrom(root, ids, edges) {
  const depth = new Map([[root, 0]]);
  const near = (id) => edges.filter((one) => one.head === id || one.tail === id)
    .map((one) => (one.head === id ? one.tail : one.head));
  for (const start of [root, ...ids]) {
    if (!depth.has(start)) depth.set(start, 1);
    const queue = [start];
    for (const id of queue) {
      for (const other of near(id)) {
        if (!depth.has(other)) {
          depth.set(other, depth.get(id) + 1);
          queue.push(other);
        }
      }
    }
  }
  const layers = [];
  for (const id of ids) (layers[depth.get(id)] ??= []).push(id);
  return layers.filter(Boolean);
}

// Layers from right to left, or from bottom to top; within a layer, near what a node is tied to.
function place(layers, boxes, edges, vertical) {
  let along = 0;
  layers.forEach((layer, depth) => {
    const before = new Map((layers[depth - 1] ?? []).map((id, at) => [id, at]));
    const pull = (id) => {
      const places = edges.flatMap((one) =>
        one.head === id ? [before.get(one.tail)] : one.tail === id ? [before.get(one.head)] : [],
      ).filter((at) => at !== undefined);
      return places.length ? places.reduce((a, b) => a + b) / places.length : Infinity;
    };
    layer.sort((a, b) => pull(a) - pull(b));
    const own = layer.map((id) => boxes.get(id));
    const size = vertical ? HEIGHT : Math.max(...own.map((box) => box.width));
    if (depth) along -= vertical ? 92 : size / 2 + gap(layer, layers[depth - 1], edges);
    spread(own, along, vertical, (box) => widest(box.id, edges));
    along -= vertical ? 0 : size / 2;
  });
}

function gap(layer, other, edges) {
  const between = edges.filter((one) =>
    (layer.includes(one.head) && other.includes(one.tail)) || (layer.includes(one.tail) && other.includes(one.head)));
  return Math.max(64, ...between.map((one) => LETTER * shortened(textOf(one), LABEL).length + 40));
}

const widest = (id, edges) =>
  Math.max(0, ...edges.filter((one) => one.head === id || one.tail === id).map((one) => LETTER * shortened(textOf(one), LABEL).length));

// Texts of edges from the same node stand side by side, halfway, so their nodes are twice as far apart.
function spread(own, along, vertical, textWidth) {
  const alone = own.length === 1;
  const steps = own.map((box) => (vertical ? Math.max(box.width, alone ? 0 : 1.6 * textWidth(box)) + 24 : HEIGHT + 44));
  let across = -steps.reduce((a, b) => a + b, 0) / 2;
  own.forEach((box, at) => {
    const middle = across + steps[at] / 2;
    [box.x, box.y] = vertical ? [middle, along] : [along, middle];
    across += steps[at];
  });
}

function shift(all) {
  const margin = 34;
  const left = Math.min(...all.map((box) => box.x - box.width / 2)) - margin;
  const top = Math.min(...all.map((box) => box.y - HEIGHT / 2)) - margin;
  for (const box of all) [box.x, box.y] = [box.x - left, box.y - top];
  const width = Math.max(...all.map((box) => box.x + box.width / 2)) + margin;
  return [width, Math.max(...all.map((box) => box.y + HEIGHT / 2)) + margin].map(Math.round);
}

// Several edges between the same two nodes are bent apart.
function bend(edges, at) {
  const ends = (one) => [one.head, one.tail].sort().join("\n");
  const same = edges.flatMap((one, number) => (ends(one) === ends(edges[at]) ? [number] : []));
  const flipped = edges[at].head > edges[at].tail ? -1 : 1;
  return flipped * (same.indexOf(at) - (same.length - 1) / 2) * 56;
}

const textOf = (edge) =>
  (edge.negated ? "not " : "") + edge.label + (edge.status === "predicted" && edge.probability !== null ? ` ${percent(edge.probability)}` : "");

// `at` is where on the way from head to tail the text stands.
function line(edge, boxes, bent, vertical, at = 0.5) {
  const [from, to] = [boxes.get(edge.head), boxes.get(edge.tail)];
  const kind = `edge ${edge.status ?? ""} ${edge.negated ? "negated" : ""}`;
  const marker = `url(#arrow-${edge.negated ? "negated" : edge.status ?? "plain"})`;
  let path, middle;
  if (from === to) {
    const top = from.y - HEIGHT / 2;
    path = `M${from.x - 12} ${top}c-18 -34 42 -34 24 0`;
    middle = [from.x, top - 26];
  } else {
    let [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy) || 1;
    const sameLayer = Math.abs(vertical ? dy : dx) < 1 && !bent;
    const side = sameLayer ? 0 : bent;
    const control = [(from.x + to.x) / 2 - (dy / length) * side, (from.y + to.y) / 2 + (dx / length) * side];
    const start = border(from, control), end = border(to, control);
    path = `M${start}Q${control} ${end}`;
    middle = [0, 1].map((n) => (1 - at) ** 2 * start[n] + 2 * at * (1 - at) * control[n] + at ** 2 * end[n]);
  }
  const text = shortened(textOf(edge), LABEL);
  return {
    path: s("path", { d: path, class: kind, "marker-end": marker }),
    text: s("text", { x: middle[0], y: middle[1] + 4, class: `label ${kind}` }, s("title", {}, textOf(edge)), text),
  };
}

// Where the line from a box's middle to a point leaves the box.
function border(box, [x, y]) {
  const [dx, dy] = [x - box.x, y - box.y];
  const reach = Math.min((box.width / 2 + 3) / Math.abs(dx || 1e-9), (HEIGHT / 2 + 3) / Math.abs(dy || 1e-9), 1);
  return [box.x + dx * reach, box.y + dy * reach];
}

function drawnBox(box, choose) {
  const shape = box.kind === "variable" || box.kind === "answer" ? HEIGHT / 2 : 7;
  const parts = [
    s("rect", { x: box.x - box.width / 2, y: box.y - HEIGHT / 2, width: box.width, height: HEIGHT, rx: shape }),
    s("text", { x: box.x, y: box.y + 5 }, box.text),
    s("title", {}, box.label),
  ];
  if (!choose || box.kind === "center") return s("g", { class: `node ${box.kind}` }, parts);
  const act = () => choose(box);
  const keys = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    }
  };
  return s(
    "g",
    { class: `node ${box.kind} link`, role: "button", tabindex: 0, "aria-label": box.label, onclick: act, onkeydown: keys },
    parts,
  );
}

const arrows = () =>
  s("defs", {}, ["plain", "known", "hidden", "predicted", "absent", "negated"].map((kind) =>
    s(
      "marker",
      { id: `arrow-${kind}`, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto", class: `arrow ${kind}` },
      s("path", { d: "M0 0L10 5L0 10z" }),
    )));

// From left to right where there is room, else from top to bottom.
export function drawWithin(width, nodes, edges, root, options) {
  const drawn = drawGraph(nodes, edges, root, options);
  return Number(drawn.getAttribute("width")) <= 1.1 * width ? drawn : drawGraph(nodes, edges, root, { ...options, vertical: true });
}

// One drawing for each alternative of a question.
export function drawQuestion(alternatives, width) {
  return alternatives.flatMap((one, at) => {
    const root = (one.nodes.find((node) => node.kind === "answer") ?? one.nodes[0]).id;
    const drawn = drawWithin(width, one.nodes, one.edges, root, { title: `Drawing ${at + 1} of the question` });
    return at ? [h("p", { class: "or" }, "or"), drawn] : [drawn];
  });
}

// A star: an entity in the middle, what it is related to around it.
export function drawStar(center, facts, choose, width) {
  const most = width < 480 ? 11 : LONGEST;
  const others = new Map();
  const edges = facts.map((fact) => {
    const outward = fact.head.id === center.id;
    const other = outward ? fact.tail : fact.head;
    if (other.id !== center.id) others.set(other.id, other);
    return { head: fact.head.id, tail: fact.tail.id, label: fact.relation, status: fact.status, negated: false, probability: null };
  });
  const boxes = new Map([[center.id, boxOf({ ...center, kind: "center" })]]);
  const ring = [...others.values()].map((one) => boxOf({ ...one, kind: "entity" }, most));
  const radius = { x: Math.max(130, width / 2 - 90), y: Math.max(100, Math.min(190, 20 * ring.length)) };
  ring.forEach((box, at) => {
    const angle = (2 * Math.PI * (at + 0.5)) / ring.length;
    [box.x, box.y] = [radius.x * Math.cos(angle), radius.y * Math.sin(angle)];
    boxes.set(box.id, box);
  });
  // Texts stand near the outer ends, in turn a little nearer, so that they do not meet.
  const outer = (edge, number) => (edge.head === center.id ? 1 : -1) * (number % 2 ? 0.2 : 0.08) + 0.5;
  const lines = () => edges.map((edge, number) => line(edge, boxes, bend(edges, number), false, outer(edge, number)));
  return picture(boxes, lines, `Around ${center.label}`, choose);
}

// The job's graph as SVG: a box for each chain of operators, in the places that the driver chose.

import { svg, say } from "./making.js";
import * as w from "./wording.js";

const WIDTH = 236, HEIGHT = 96, GAP_X = 60, GAP_Y = 28, MARGIN = 12, LETTERS = 30;

export const label = (vertex) => vertex.operators.map((each) => each.uid).join(" -> ");

export function level(rates) {
  if ((rates?.busy ?? 0) > 0.8) return "busy";
  return (rates?.backpressured ?? 0) > 0.2 ? "waits" : "";
}

const shortened = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 3)}...` : text);

export class Graph {
  constructor(onChosen) {
    this.onChosen = onChosen;
    this.element = svg("svg", { class: "graph", role: "group", "aria-label": "Graph of the job" });
    this.boxes = new Map();
  }

  draw(plan) {
    this.boxes.clear();
    const at = new Map(plan.vertices.map((each) => [each.id, each.place]));
    const x = (id) => MARGIN + at.get(id)[0] * (WIDTH + GAP_X);
    const y = (id) => MARGIN + at.get(id)[1] * (HEIGHT + GAP_Y);
    const columns = Math.max(...plan.vertices.map((each) => each.place[0])) + 1;
    const rows = Math.max(...plan.vertices.map((each) => each.place[1])) + 1;
    const width = 2 * MARGIN + columns * WIDTH + (columns - 1) * GAP_X;
    const height = 2 * MARGIN + rows * HEIGHT + (rows - 1) * GAP_Y;
    this.element.setAttribute("width", width);
    this.element.setAttribute("height", height);
    const edges = plan.edges.map((edge) => {
      const from = [x(edge.source) + WIDTH, y(edge.source) + HEIGHT / 2], to = [x(edge.target), y(edge.target) + HEIGHT / 2];
      const bend = Math.max(GAP_X / 2, (to[0] - from[0]) / 2);
      const line = `M${from} C${from[0] + bend},${from[1]} ${to[0] - bend},${to[1]} ${to[0] - 6},${to[1]}`;
      const name = edge.tag === null ? edge.partitioner : `${edge.partitioner}, side output ${edge.tag}`;
      return svg("g", {}, svg("title", {}, name), svg("path", { class: "edge", d: line }),
        svg("path", { class: "head", d: `M${to} l-9,-5 v10 z` }));
    });
    this.element.replaceChildren(...edges, ...plan.vertices.map((each) => this.#box(each, x(each.id), y(each.id))));
  }

  #box(vertex, x, y) {
    const choose = () => this.onChosen(vertex.id);
    const text = (name, dy, kind) => {
      const made = svg("text", { x: x + 10, y: y + dy, class: kind });
      parts[name] = made;
      return made;
    };
    const parts = { parallelism: vertex.parallelism };
    const group = svg("g", {
      class: "vertex", tabindex: "0", role: "button",
      onclick: choose,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } },
    },
    svg("rect", { class: "box", x, y, width: WIDTH, height: HEIGHT, rx: 6 }),
    text("title", 20, "name"), text("rates", 40, ""), text("time", 60, ""), text("mark", 79, "faint"),
    svg("rect", { class: "whole", x: x + 10, y: y + HEIGHT - 11, width: WIDTH - 20, height: 4 }),
    (parts.bar = svg("rect", { class: "part", x: x + 10, y: y + HEIGHT - 11, width: 0, height: 4 })));
    parts.group = group;
    say(parts.title, shortened(`${label(vertex)}`));
    this.boxes.set(vertex.id, parts);
    return group;
  }

  update(status, chosen) {
    for (const rates of status.vertices) {
      const parts = this.boxes.get(rates.id);
      if (parts === undefined) continue;
      const kind = level(rates);
      parts.group.setAttribute("class", `vertex ${kind} ${rates.id === chosen ? "chosen" : ""}`);
      say(parts.rates, `${w.rate(rates.in_per_s)} in, ${w.rate(rates.out_per_s)} out`);
      say(parts.time, `busy ${w.share(rates.busy)}, waits ${w.share(rates.backpressured)}`);
      const skew = (rates.skew ?? 0) >= 2 ? `, skew ${w.times(rates.skew)}` : "";
      const lag = rates.watermark_ms === null ? "" : `, watermark ${lagged(status, rates)}`;
      say(parts.mark, `x ${parts.parallelism}${skew}${lag}`);
      parts.bar.setAttribute("width", Math.round((WIDTH - 20) * Math.min(1, rates.busy ?? 0)));
    }
  }
}

// Event time of recorded input is long ago; how far it is behind the clock says something for live input only.
export function lagged(status, rates) {
  const behind = status.time_ms - rates.watermark_ms;
  return Math.abs(behind) < 86_400_000 ? `${w.span(Math.max(0, behind))} behind` : w.moment(rates.watermark_ms);
}

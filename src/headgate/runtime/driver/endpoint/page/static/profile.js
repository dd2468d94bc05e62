// Where the program spends its time: samples of the workers' loops as a flame graph, and as a table.

import { el, say, svg, Table } from "./making.js";
import { ask, tell } from "./asking.js";
import * as w from "./wording.js";

const WIDTH = 1000, LINE = 18, LEAST = 1.5, SECONDS = 10;

export class Profile {
  constructor() {
    this.button = el("button", { type: "button", onclick: () => this.#begin() }, `Sample for ${SECONDS} s`);
    this.told = el("p", { class: "faint", role: "status" });
    this.graph = svg("svg", { class: "flames", role: "img", viewBox: `0 0 ${WIDTH} ${LINE}` });
    this.table = new Table("Functions by the time spent in them, without what they call", [
      { name: "function", text: true, head: true }, { name: "operator", text: true }, { name: "share" }, { name: "samples" },
    ]);
    this.picture = el("div", { class: "scroll" }, this.graph);
    this.element = el("div", {}, el("h2", {}, "Where the time goes"),
      el("p", {}, "Each worker's loop is looked at fifty times a second; threads of blocking functions are not."),
      el("p", { class: "form" }, this.button), this.told, this.picture, this.table.element);
    this.picture.hidden = this.table.element.hidden = true;
  }

  async #begin() {
    this.button.disabled = true;
    try { this.#show(await tell("v1/profile", { seconds: SECONDS })); } catch (error) { say(this.told, error.message); }
  }

  async update(model) {
    this.button.disabled = model.status.over || this.runs === true;
    if (!model.status.over && this.runs !== false) this.#show(await ask("v1/profile"));
  }

  #show(found) {
    this.runs = found.runs;
    const stacks = Object.entries(found.stacks), all = stacks.reduce((sum, [, times]) => sum + times, 0);
    const words = found.runs ? "Sampling" : found.number ? "Done" : "Nothing was sampled yet";
    say(this.told, all ? `${words}: ${w.count(all)} samples.` : `${words}.`);
    this.button.disabled = found.runs;
    this.picture.hidden = this.table.element.hidden = all === 0;
    if (all) { this.#draw(stacks, all); this.#list(stacks, all); }
  }

  #draw(stacks, all) {
    const root = { name: "all workers", times: 0, parts: new Map() };
    let deepest = 0;
    for (const [stack, times] of stacks) {
      let node = root;
      node.times += times;
      const names = stack.split(";");
      deepest = Math.max(deepest, names.length);
      for (const name of names) {
        if (!node.parts.has(name)) node.parts.set(name, { name, times: 0, parts: new Map() });
        node = node.parts.get(name);
        node.times += times;
      }
    }
    const boxes = [];
    const place = (node, x, depth) => {
      const width = (node.times / all) * WIDTH;
      if (width < LEAST) return;
      boxes.push(this.#box(node, x, depth, width, all));
      for (const part of [...node.parts.values()].sort((a, b) => b.times - a.times)) {
        place(part, x, depth + 1);
        x += (part.times / all) * WIDTH;
      }
    };
    place(root, 0, 0);
    this.graph.setAttribute("viewBox", `0 0 ${WIDTH} ${(deepest + 1) * LINE}`);
    this.graph.setAttribute("aria-label", `Flame graph of ${w.count(all)} samples; the table below has its functions`);
    this.graph.replaceChildren(...boxes);
  }

  #box(node, x, depth, width, all) {
    const letters = Math.floor(width / 7) - 1, kind = node.name.startsWith("(") ? "rest" : depth === 1 ? "operator" : "call";
    const name = w.plain(node.name, 200), shown = letters < 3 ? "" : name.length > letters ? `${name.slice(0, letters - 2)}..` : name;
    return svg("g", { class: kind }, svg("title", {}, `${name}: ${w.share(node.times / all)}, ${w.count(node.times)} samples`),
      svg("rect", { x, y: depth * LINE, width: Math.max(0.5, width - 0.5), height: LINE - 1 }),
      svg("text", { x: x + 3, y: depth * LINE + 13 }, shown));
  }

  #list(stacks, all) {
    const own = new Map();
    for (const [stack, times] of stacks) {
      const names = stack.split(";"), key = JSON.stringify([names.at(-1), names.length > 1 ? names[0] : ""]);
      own.set(key, (own.get(key) ?? 0) + times);
    }
    const rows = [...own].sort((a, b) => b[1] - a[1]).slice(0, 30);
    this.table.update(rows.map(([key, times]) => [key, [...JSON.parse(key), w.share(times / all), w.count(times)]]));
  }
}

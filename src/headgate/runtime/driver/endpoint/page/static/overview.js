// The first part of the page: the graph, the same as a table, and charts.

import { el, Table } from "./making.js";
import { Charts } from "./charts.js";
import { Graph, label, lagged, level } from "./graph.js";
import * as w from "./wording.js";

const COLUMNS = [
  { name: "operators", text: true, head: true }, { name: "subtasks" }, { name: "in" }, { name: "out" },
  { name: "records in" }, { name: "records out" }, { name: "busy" }, { name: "waits" }, { name: "idle" },
  { name: "skew" }, { name: "watermark" }, { name: "late" }, { name: "skipped" }, { name: "state" },
];

export class Overview {
  constructor(choose) {
    this.choose = choose;
    this.graph = new Graph(choose);
    this.charts = new Charts();
    this.table = new Table("The operators and what they do now", COLUMNS);
    this.sources = new Table("Sources that get their input in epochs", [
      { name: "source", text: true, head: true }, { name: "epoch" }, { name: "rows" }, { name: "rows per second" },
      { name: "latency" }, { name: "waits for", text: true },
    ]);
    const scroll = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of the job, scrolls sideways" };
    this.element = el("div", {},
      el("h2", {}, "Graph"), el("div", scroll, this.graph.element),
      el("h2", {}, "Operators"), this.table.element,
      (this.sourcesBox = el("div", {}, el("h2", {}, "Sources"), this.sources.element)),
      el("h2", {}, "Last ten minutes"), this.charts.element);
    this.sourcesBox.hidden = true;
  }

  planned(model) {
    this.graph.draw(model.plan);
    this.charts.draw(model.plan);
  }

  update(model) {
    const { status, plan } = model;
    this.graph.update(status, model.chosen);
    const rates = new Map(status.vertices.map((each) => [each.id, each]));
    const state = model.stateSizes();
    this.table.update(plan.vertices.map((vertex) => [vertex.id, this.#cells(vertex, rates.get(vertex.id), status, state)]));
    const sources = Object.entries(status.sources);
    this.sourcesBox.hidden = sources.length === 0;
    this.sources.update(sources.map(([uid, each]) => [uid, [uid, w.count(each.epoch), w.count(each.rows),
      w.rate(each.rate_per_s), w.span(each.latency_ms), each.waiting]]));
  }

  #cells(vertex, rates = {}, status, state) {
    const kind = level(rates);
    const choose = () => el("button", { class: "quiet", type: "button", onclick: () => this.choose(vertex.id) }, label(vertex));
    return [
      { make: choose }, w.count(vertex.parallelism), w.rate(rates.in_per_s), w.rate(rates.out_per_s),
      w.count(rates.records_in), w.count(rates.records_out),
      { text: w.share(rates.busy), kind: kind === "busy" ? "busy" : "" },
      { text: w.share(rates.backpressured), kind: (rates.backpressured ?? 0) > 0.2 ? "waits" : "" },
      w.share(rates.idle), w.times(rates.skew),
      w.known(rates.watermark_ms) ? lagged(status, rates) : w.NOTHING,
      w.count(rates.late), w.count(rates.skipped), w.bytes(state.get(vertex.id)),
    ];
  }
}

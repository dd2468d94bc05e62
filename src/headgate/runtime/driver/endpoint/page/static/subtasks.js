// The subtasks of one vertex: their newest numbers, rates and workers.

import { el, say, Table } from "./making.js";
import { label } from "./graph.js";
import { ask } from "./asking.js";
import * as w from "./wording.js";

const NUMBER = (name) => (subtask) => subtask.numbers[`headgate_${name}`];
const COLUMNS = [
  ["subtask", (each) => String(each.subtask)],
  ["in", (each) => w.rate(each.rates?.in_per_s)],
  ["out", (each) => w.rate(each.rates?.out_per_s)],
  ["records in", (each) => w.count(NUMBER("records_in_total")(each))],
  ["records out", (each) => w.count(NUMBER("records_out_total")(each))],
  ["busy", (each) => ({ text: w.share(each.rates?.busy), kind: (each.rates?.busy ?? 0) > 0.8 ? "busy" : "" })],
  ["waits", (each) => ({ text: w.share(each.rates?.backpressured), kind: (each.rates?.backpressured ?? 0) > 0.2 ? "waits" : "" })],
  ["idle", (each) => w.share(each.rates?.idle)],
  ["for the loop", (each) => w.share(each.rates?.waiting)],
  ["longest step", (each) => w.span((NUMBER("longest_step_seconds")(each) ?? NaN) * 1000)],
  ["watermark", (each) => mark(each)],
  ["timers", (each) => w.count(sum(NUMBER('timers_pending{domain="event"}')(each), NUMBER('timers_pending{domain="processing"}')(each)))],
  ["late", (each) => w.count(NUMBER("late_records_dropped_total")(each))],
  ["worker", (each) => (each.host === null ? w.NOTHING : `${each.host}, process ${each.pid}`)],
];

const sum = (one, other) => (w.known(one) || w.known(other) ? (one ?? 0) + (other ?? 0) : null);

function mark(subtask) {
  const seconds = NUMBER('watermark_timestamp_seconds{side="input"}')(subtask) ?? NUMBER('watermark_timestamp_seconds{side="output"}')(subtask);
  return w.known(seconds) ? w.moment(seconds * 1000) : w.NOTHING;
}

export class Subtasks {
  constructor(choose) {
    this.select = el("select", { id: "vertex", onchange: () => choose(Number(this.select.value)) });
    this.operators = el("ul");
    this.table = new Table("Subtasks, with what they did in the last seconds", COLUMNS.map(([name]) => ({ name, head: name === "subtask" })));
    this.stuck = el("div");
    this.element = el("div", {}, el("h2", {}, "Subtasks"),
      el("p", { class: "form" }, el("label", { for: "vertex" }, "Operators"), this.select),
      this.operators, this.table.element, this.stuck);
  }

  planned(model) {
    this.select.replaceChildren(...model.plan.vertices.map((each) => el("option", { value: each.id }, w.plain(label(each), 120))));
  }

  async update(model) {
    this.select.value = String(model.chosen);
    const vertex = model.plan.vertices.find((each) => each.id === model.chosen);
    if (this.shown !== vertex) {
      this.shown = vertex;
      this.operators.replaceChildren(...(vertex?.operators ?? []).map((each) => el("li", {}, sentence(each))));
    }
    this.stuck.replaceChildren(...model.status.stuck.map((each) => el("article", {},
      el("h3", {}, `${each.operator}, subtask ${each.subtask}: busy for ${w.span(each.for_ms)} without progress`),
      el("pre", { tabindex: "0" }, each.stack))));
    const found = await ask("v1/subtasks");
    const rows = found.vertices.find((each) => each.id === model.chosen)?.subtasks ?? [];
    this.table.update(rows.map((each) => [each.subtask, COLUMNS.map(([, show]) => show(each))]));
  }
}

function sentence(operator) {
  const states = operator.states.map((each) => `${each.name} (${each.kind})`).join(", ");
  const where = operator.site ? `, ${operator.site}` : "";
  return `${operator.uid}: ${operator.name}${where}${states ? `; keyed state: ${states}` : ""}`;
}

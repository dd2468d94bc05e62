// Where records come from and go to: what is left of each split, what sinks have prepared, channels between.

import { el, Table } from "./making.js";
import { ask } from "./asking.js";
import { label } from "./graph.js";
import * as w from "./wording.js";

const number = (each, name) => each.numbers[`headgate_${name}`];
const ms = (seconds) => (w.known(seconds) ? seconds * 1000 : null);

export class Ends {
  constructor() {
    this.splits = new Table("Splits that are read now, and how far they are from their ends", [
      { name: "source", text: true, head: true }, { name: "subtask" }, { name: "split", text: true },
      { name: "records left" }, { name: "bytes left" }, { name: "behind" },
    ]);
    this.sinks = new Table("Sinks, and what they have prepared that is not known to be committed", [
      { name: "sink", text: true, head: true }, { name: "subtask" }, { name: "records" }, { name: "pending commits" },
    ]);
    this.channels = new Table("Channels between subtasks, with what is on its way", [
      { name: "from", text: true, head: true }, { name: "subtask" }, { name: "to", text: true }, { name: "its subtask" },
      { name: "frames in flight" }, { name: "bytes in flight" }, { name: "frames waiting" }, { name: "credit left" },
    ]);
    this.none = el("p", { class: "faint" }, "No source has told of a split that is not read to its end.");
    this.element = el("div", {}, el("h2", {}, "Sources"), this.none, this.splits.element, el("h2", {}, "Sinks"), this.sinks.element,
      el("h2", {}, "Channels"), this.channels.element);
  }

  async update(model) {
    const found = await ask("v1/subtasks");
    const parts = (place) => found.vertices.flatMap((vertex) => vertex.subtasks.flatMap((subtask) =>
      (subtask.parts ?? []).filter((each) => each.place === place).map((each) => ({ vertex, subtask, ...each }))));
    const key = (...names) => JSON.stringify(names);
    const splits = parts("split");
    this.none.hidden = splits.length > 0;
    this.splits.element.hidden = splits.length === 0;
    this.splits.update(splits.map((each) => [key(each.vertex.id, each.subtask.subtask, each.labels), [
      each.vertex.uids[0], w.count(each.subtask.subtask), each.labels[0], w.count(number(each, "source_pending_records")),
      w.bytes(number(each, "source_pending_bytes")), w.span(ms(number(each, "source_behind_seconds")))]]));
    const sinks = model.plan.vertices.filter((vertex) => vertex.operators.some((each) => each.end === "sink"));
    this.sinks.update(sinks.flatMap((vertex) => (found.vertices.find((each) => each.id === vertex.id)?.subtasks ?? []).map((each) => [
      key(vertex.id, each.subtask), [label(vertex), w.count(each.subtask), w.count(number(each, "records_out_total")),
        w.count(number(each, "sink_pending_commits"))]])));
    this.channels.update(parts("channel").map((each) => [key(each.vertex.id, each.subtask.subtask, each.labels), [
      each.vertex.uids.at(-1), w.count(each.subtask.subtask), each.labels[0], each.labels[1],
      w.count(number(each, "channel_in_flight_frames")), w.bytes(number(each, "channel_in_flight_bytes")),
      w.count(number(each, "channel_waiting_frames")), w.count(number(each, "channel_credit_frames"))]]));
  }
}

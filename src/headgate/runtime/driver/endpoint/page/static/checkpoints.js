// The newest checkpoints and savepoints, and of a chosen one each subtask's times and the slowest path.

import { el, say, Table } from "./making.js";
import { ask } from "./asking.js";
import { points } from "./charts.js";
import * as w from "./wording.js";

export class Checkpoints {
  constructor() {
    this.table = new Table("Checkpoints and savepoints, the newest first", [
      { name: "id", head: true }, { name: "kind", text: true }, { name: "status", text: true }, { name: "begun (UTC)" },
      { name: "took" }, { name: "state" }, { name: "written" }, { name: "in flight" }, { name: "acknowledged" },
      { name: "why", text: true, wide: true },
    ]);
    this.detail = el("section", { "aria-label": "One checkpoint", tabindex: "-1" });
    this.charts = el("div", { class: "charts" });
    this.summary = el("p", { class: "faint" });
    this.element = el("div", {}, el("h2", {}, "Checkpoints"), this.summary, this.charts, this.table.element, this.detail);
  }

  update(model) {
    const { status } = model, newest = [...model.checkpoints].reverse();
    say(this.summary, `${w.count(status.checkpoints_completed)} completed, ${w.count(status.checkpoints_failed)} failed, `
      + `${w.count(status.savepoints_completed)} savepoints, ${status.pending.length} in progress`);
    this.#draw(model.checkpoints.filter((each) => each.status === "completed"));
    this.table.update(newest.map((each) => [each.checkpoint, this.#cells(each)]));
  }

  #draw(done) {
    const last = done.at(-1)?.checkpoint;
    if (this.drawn === last || done.length < 2) return;
    this.drawn = last;
    const times = done.map((each) => each.trigger_ms / 1000);
    this.charts.replaceChildren(
      points("Duration of completed checkpoints", times, [{ label: "took", show: w.span, values: done.map((each) => each.duration_ms) }]),
      points("Bytes of completed checkpoints", times, [
        { label: "state", show: w.bytes, values: done.map((each) => each.size) },
        { label: "written", show: w.bytes, values: done.map((each) => each.written) },
        { label: "in flight", show: w.bytes, values: done.map((each) => each.in_flight) },
      ]));
  }

  #cells(each) {
    const open = () => el("button", { class: "quiet", type: "button", onclick: () => this.open(each.checkpoint) }, each.checkpoint);
    const failed = each.status === "failed";
    return [
      { make: open }, each.kind, { text: each.status, kind: failed ? "failed" : "" }, w.moment(each.trigger_ms),
      w.span(each.duration_ms), w.bytes(each.size), w.bytes(each.written),
      each.unaligned ? w.bytes(each.in_flight) : w.NOTHING, `${each.acknowledged} of ${each.tasks}`,
      failed ? [each.reason, each.detail].filter(Boolean).join(": ") : each.why,
    ];
  }

  async open(checkpoint) {
    let found;
    try {
      found = await ask(`v1/checkpoint-times/${checkpoint}`);
    } catch (error) {
      this.detail.replaceChildren(el("p", {}, error.message));
      return;
    }
    const path = new Table("The path of the slowest barrier", ["subtask", "on its way", "alignment", "pause", "writing", "other"]
      .map((name, place) => ({ name, text: place === 0, head: place === 0 })));
    path.update(found.path.hops.map((hop, place) => [place, [hop.missing ? `${hop.label} (has not acknowledged)` : hop.label,
      ...[hop.travel_ms, hop.alignment_ms, hop.sync_ms, hop.async_ms, hop.other_ms].map((ms) => (hop.missing ? w.NOTHING : w.span(ms)))]]));
    const names = ["subtask", "acknowledged", "delay", "alignment", "pause", "writing", "written", "state", "in flight", "slowest sender"];
    const times = new Table("Times of each subtask", names.map((name, place) => ({ name, text: place === 0 || place === 9, head: place === 0 })));
    times.update(found.subtasks.map((each) => [each.label, [each.label, w.span(each.ack_latency_ms), w.span(each.start_delay_ms),
      w.span(each.alignment_ms), w.span(each.sync_ms), w.span(each.async_ms), w.bytes(each.bytes_written), w.bytes(each.state_size),
      w.bytes(each.bytes_persisted), each.slowest_channel ?? ""]]));
    const missing = found.missing.length ? el("p", {}, `Not acknowledged by ${found.missing.join(", ")}`) : null;
    const rest = `storing ${w.span(found.path.storing_ms)}, committing ${w.span(found.path.committing_ms)}`;
    this.detail.replaceChildren(el("h2", {}, `Checkpoint ${found.checkpoint}`), el("p", {}, found.why), missing ?? "",
      path.element, el("p", { class: "faint" }, rest), times.element);
    this.detail.focus();
  }
}

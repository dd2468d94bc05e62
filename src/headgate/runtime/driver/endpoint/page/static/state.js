// The keyed states that the operators declare, how large they are, and the value under one key, now.

import { el, Table } from "./making.js";
import { ask } from "./asking.js";
import { label } from "./graph.js";
import * as w from "./wording.js";

export class State {
  constructor() {
    this.sizes = new Table("State of each chain of operators, by completed checkpoints", [
      { name: "operators", text: true, head: true }, { name: "newest" }, { name: "first shown" }, { name: "change" },
    ]);
    this.states = el("select", { id: "states" });
    this.key = el("input", { id: "key", autocomplete: "off", spellcheck: "false", required: true });
    this.found = el("pre", { tabindex: "0", role: "status", "aria-label": "Value" });
    this.form = el("form", { class: "form", onsubmit: (event) => { event.preventDefault(); this.#look(); } },
      el("label", { for: "states" }, "State"), this.states, el("label", { for: "key" }, "Key"), this.key,
      el("button", {}, "Look"));
    this.hint = el("p", { class: "faint" }, "The key is JSON: 42, \"ada\", [\"ada\", 7]; text that is no JSON needs no quotes. "
      + "The value is that between two records.");
    this.element = el("div", {}, el("h2", {}, "Sizes"), this.sizes.element, el("h2", {}, "One key"), this.form, this.hint, this.found);
  }

  planned(model) {
    const all = model.plan.vertices.flatMap((vertex) => vertex.operators).flatMap((operator) =>
      operator.states.map((state) => ({ uid: operator.uid, name: state.name, kind: state.kind })));
    this.all = all;
    this.states.replaceChildren(...all.map((each, place) =>
      el("option", { value: place }, w.plain(`${each.uid}: ${each.name} (${each.kind})`, 120))));
  }

  update(model) {
    this.form.hidden = this.hint.hidden = model.status.over || this.all.length === 0;
    this.found.hidden = this.form.hidden || this.found.textContent === "";
    const done = model.checkpoints.filter((each) => each.status === "completed");
    const size = (checkpoint, id) => checkpoint?.state[id] ?? null;
    this.sizes.update(model.plan.vertices.map((vertex) => {
      const newest = size(done.at(-1), vertex.id), first = size(done[0], vertex.id);
      const change = newest === null || first === null ? w.NOTHING : `${newest < first ? "-" : "+"}${w.bytes(Math.abs(newest - first))}`;
      return [vertex.id, [label(vertex), w.bytes(newest), w.bytes(first), change]];
    }));
  }

  async #look() {
    const state = this.all[Number(this.states.value)], typed = this.key.value.trim();
    let key = typed;
    try { JSON.parse(typed); } catch { if (!/^[{[]/.test(typed)) key = JSON.stringify(typed); }
    const path = `v1/state/${encodeURIComponent(state.uid)}/${encodeURIComponent(state.name)}?key=${encodeURIComponent(key)}`;
    let text;
    try { text = (await ask(path)).text; } catch (error) { text = error.message; }
    this.found.textContent = w.plain(text, 20_000);
    this.found.hidden = false;
  }
}

// The story of the job's attempts, with what failed where, and notes.

import { el } from "./making.js";
import * as w from "./wording.js";

export class Failures {
  constructor() {
    this.list = el("div");
    this.notes = el("div");
    this.opened = new Set();
    this.element = el("div", {}, el("h2", {}, "Attempts and failures"), this.list, el("h2", {}, "Notes"), this.notes);
  }

  update(model) {
    const { attempts, notes } = model.story;
    if (this.shown === model.story) return;
    this.shown = model.story;
    this.list.replaceChildren(...(attempts.length ? [...attempts].reverse().map((each) => this.#article(each)) : [el("p", {}, "None yet.")]));
    this.notes.replaceChildren(...(notes.length ? [...notes].reverse().map((each) =>
      el("p", {}, el("span", { class: "faint" }, `${w.moment(each.time_ms)} `), each.text)) : [el("p", {}, "None.")]));
  }

  #article(each) {
    const from = each.checkpoint === null ? "without state" : `from checkpoint ${each.checkpoint}`;
    const lasted = each.ended_ms === null ? "" : `, after ${w.span(each.ended_ms - each.began_ms)}`;
    const end = each.end === "" ? "under way" : `${each.end}${lasted}`;
    return el("article", {},
      el("h3", {}, `Attempt ${each.attempt}: ${end}`),
      el("p", { class: "faint" }, `Began ${w.moment(each.began_ms)} ${from}`),
      ...(each.error ? this.#error(each) : []));
  }

  #error(each) {
    const { error } = each;
    const told = [
      el("p", {}, el("strong", {}, error.message || error.kind)),
      error.line ? el("p", {}, "At ", el("code", {}, error.line), error.operator ? ` in ${error.operator}` : "") : null,
      error.record ? el("p", {}, "Record ", el("code", {}, w.plain(error.record, 600))) : null,
      each.repeats ? el("p", {}, `The same failure has come ${each.repeats} times. ${each.advice ?? ""}`) : null,
    ];
    if (error.traceback) {
      const details = el("details", { ontoggle: () => (details.open ? this.opened.add(each.attempt) : this.opened.delete(each.attempt)) },
        el("summary", {}, "Traceback"), el("pre", { tabindex: "0" }, w.plain(error.traceback, 100_000)));
      details.open = this.opened.has(each.attempt);
      told.push(details);
    }
    return told.filter(Boolean);
  }
}

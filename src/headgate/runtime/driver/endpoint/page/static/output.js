// The newest lines that the program's own code has printed in the workers.

import { el, say } from "./making.js";
import { ask } from "./asking.js";
import * as w from "./wording.js";

export class Output {
  constructor() {
    this.lines = el("pre", { tabindex: "0", role: "region", "aria-label": "Printed lines" });
    this.summary = el("p", { class: "faint" });
    this.element = el("div", {}, el("h2", {}, "What the program prints"), this.summary, this.lines);
    this.shown = -1;
  }

  async update(model) {
    if (this.shown === model.status.printed) return;
    this.shown = model.status.printed;
    const found = await ask("v1/output");
    const atEnd = this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 40;
    say(this.summary, found.ever === 0
      ? "Nothing so far. Of a job that was started neither in a terminal nor in a notebook, the workers' logs have it."
      : `${w.count(found.ever)} lines; the newest ${w.count(found.lines.length)} are shown.`);
    say(this.lines, found.lines.join("\n"), 1_000_000);
    if (atEnd) this.lines.scrollTop = this.lines.scrollHeight;
  }
}

// Every option of the job, its value, and where the value came from.

import { el, Table } from "./making.js";
import { ask } from "./asking.js";

export class Settings {
  constructor() {
    this.table = new Table("Options; secrets are masked", [
      { name: "option", text: true, head: true }, { name: "value", text: true }, { name: "from", text: true }, { name: "meaning", text: true },
    ]);
    this.search = el("input", { type: "search", id: "search", oninput: () => this.#show() });
    this.set = el("input", { type: "checkbox", id: "set", onchange: () => this.#show() });
    this.options = [];
    this.element = el("div", {}, el("h2", {}, "Configuration"),
      el("p", { class: "form" }, el("label", { for: "search" }, "Search"), this.search, this.set, el("label", { for: "set" }, "only what is set")),
      this.table.element);
  }

  async update() {
    if (this.options.length) return;
    this.options = (await ask("v1/config")).options;
    this.#show();
  }

  #show() {
    const words = this.search.value.toLowerCase();
    const shown = this.options.filter((each) => (!this.set.checked || each.is_set)
      && `${each.key} ${each.value} ${each.help}`.toLowerCase().includes(words));
    this.table.update(shown.map((each) => [each.key, [each.key, each.value, each.origin, each.help]]));
  }
}

// The newest lines of the logs of the driver and all workers, merged by time, with a choice of what is shown.

import { el, say, Table } from "./making.js";
import { ask } from "./asking.js";
import * as w from "./wording.js";

const KEPT_MAX = 5000;
const SHOWN_MAX = 500;
const LEVELS = { debug: 10, info: 20, warning: 30, error: 40 };
const NUMBERS = { ...LEVELS, critical: 50 };
const KINDS = { WARNING: "waits", ERROR: "failed", CRITICAL: "failed" };

const option = (value, text) => el("option", { value }, text ?? value);

export class Logs {
  constructor() {
    const change = () => { this.#show(); say(this.told, this.fitting === 1 ? "1 line fits." : `${w.count(this.fitting)} lines fit.`); };
    this.process = el("select", { id: "log-process", onchange: change }, option("", "all"), option("workers", "all workers"));
    this.level = el("select", { id: "log-level", onchange: change }, Object.keys(LEVELS).map((each) => option(each)));
    this.search = el("input", { type: "search", id: "log-text", oninput: change });
    this.still = el("input", { type: "checkbox", id: "log-still", onchange: () => this.#show() });
    this.summary = el("p", { class: "faint" });
    this.told = el("p", { class: "faint", role: "status" });
    this.table = new Table("Log lines, the newest first", [
      { name: "time", text: true }, { name: "level", text: true }, { name: "process", text: true },
      { name: "where", text: true }, { name: "message", text: true, wide: true },
    ]);
    this.lines = [];
    this.processes = [];
    this.newest = this.fitting = this.left_out = 0;
    this.shown = -1;
    this.element = el("div", {}, el("h2", {}, "Logs"),
      el("p", { class: "form" },
        el("label", { for: "log-process" }, "Process"), this.process,
        el("label", { for: "log-level" }, "Least level"), this.level,
        el("label", { for: "log-text" }, "Text"), this.search,
        this.still, el("label", { for: "log-still" }, "hold still")),
      this.told, this.summary, this.table.element);
  }

  async update(model) {
    if (this.shown === model.status.logged) return;
    const logged = model.status.logged;
    let found;
    try { found = await ask(`v1/logs?after=${this.newest}`); } catch (error) {
      if (error.status === 404) say(this.summary, "No log lines of this job were kept.");
      throw error;
    }
    this.shown = logged;
    // A second answer to the same question may have come meanwhile.
    const fresh = found.lines.filter((each) => each.number > this.newest);
    this.newest = Math.max(this.newest, found.newest);
    this.lines = [...this.lines, ...fresh].sort((a, b) => a.time_ms - b.time_ms || a.number - b.number).slice(-KEPT_MAX);
    this.#choices(found.processes);
    if (!this.still.checked) this.#show();
  }

  #choices(processes) {
    this.left_out = processes.reduce((sum, each) => sum + each.left_out, 0);
    const names = processes.map((each) => each.process);
    for (const name of names.filter((each) => !this.processes.includes(each))) this.process.append(option(name, w.plain(name, 40)));
    this.processes = [...new Set([...this.processes, ...names])];
  }

  #fits(line) {
    const process = this.process.value, words = this.search.value.toLowerCase();
    return (process === "" || process === line.process || (process === "workers" && line.process !== "driver"))
      && (NUMBERS[line.level.toLowerCase()] ?? 0) >= (this.level.value === "debug" ? 0 : LEVELS[this.level.value])
      && `${line.message}\n${line.exception ?? ""}\n${line.logger}\n${line.uid ?? ""}`.toLowerCase().includes(words);
  }

  #show() {
    const fitting = this.lines.filter((each) => this.#fits(each));
    this.fitting = fitting.length;
    const dropped = this.left_out ? `; workers have dropped ${w.count(this.left_out)} more, of which there were too many at once` : "";
    const cut = fitting.length > SHOWN_MAX ? `, of which the newest ${SHOWN_MAX} are shown` : "";
    say(this.summary, this.lines.length === 0
      ? "Nothing so far."
      : `${w.count(fitting.length)} of ${w.count(this.lines.length)} lines${cut}${dropped}.`);
    this.table.update(fitting.slice(-SHOWN_MAX).reverse().map((each) => [each.number, this.#cells(each)]));
  }

  #cells(line) {
    const where = [line.uid === null ? null : `${line.uid}[${line.subtask}]`,
      line.attempt === null ? null : `attempt ${line.attempt}`,
      line.checkpoint === null ? null : `checkpoint ${line.checkpoint}`];
    return [
      clock(line.time_ms), { text: line.level, kind: KINDS[line.level] ?? "" },
      line.pid === null ? line.process : `${line.process}, ${line.pid}`,
      where.filter(Boolean).join(", ") || w.NOTHING, { make: () => message(line) },
    ];
  }
}

function clock(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? w.count(ms) : date.toISOString().slice(11, 23);
}

function message(line) {
  const short = w.plain(line.message, 600);
  const long = line.message.length > 600 ? [w.plain(line.message, 10_000)] : [];
  const more = line.exception === null ? long : [...long, w.plain(line.exception, 20_000)];
  return el("div", { class: "line" }, el("span", { class: "faint" }, `${line.logger}: `), short,
    more.length ? el("details", {}, el("summary", {}, "More"), more.map((each) => el("pre", { tabindex: "0" }, each))) : null);
}

// Charts of the last ten minutes, by uPlot. They are pictures: the tables have the same numbers for those who
// do not see them.

import { el, say } from "./making.js";
import { label } from "./graph.js";
import * as w from "./wording.js";

const MOST = 600;
const GAP_S = 5;
const LIGHT = ["#1a56a0", "#b3430e", "#2b7a3d", "#7a3fa0", "#8a6a00", "#0f7a80", "#a02060", "#555555"];
const DARK = ["#82b8f5", "#f5a67d", "#8fd6a0", "#cfa3ee", "#e3c766", "#7fd6dc", "#f29bc1", "#c0c0c0"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const variable = (name) => {
  const found = getComputedStyle(document.documentElement).getPropertyValue(name);
  const both = /light-dark\(([^,]+),\s*([^)]+)\)/.exec(found);
  return both ? both[dark.matches ? 2 : 1] : found;
};

const axis = () => ({ stroke: () => variable("--text"), grid: { stroke: () => variable("--line") }, ticks: { stroke: () => variable("--line") } });
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

// A chart of few points with lines between: [{label, show, values}] over times in seconds; returns its element.
export function points(name, times, series) {
  const colours = dark.matches ? DARK : LIGHT;
  const picture = el("div", { role: "img", "aria-label": name });
  const box = el("section", { class: "chart" }, el("h3", {}, name), picture);
  if (typeof uPlot === "undefined") return box;
  const show = (each) => (_, value) => (value === null || value === undefined ? w.NOTHING : each.show(value));
  const plot = new uPlot({
    width: 400, height: 160, cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1e-3) * 1.05] } },
    axes: [{ ...axis(), space: 80, values: (_, ticks) => ticks.map(clock) },
      { ...axis(), size: 66, values: (_, ticks) => ticks.map((tick) => series[0].show(tick)) }],
    series: [{ label: "time", value: (_, s) => (s === null ? w.NOTHING : w.moment(s * 1000)) },
      ...series.map((each, place) => ({ label: each.label, stroke: colours[place], width: 2, value: show(each) }))],
  }, [times, ...series.map((each) => each.values)], picture);
  new ResizeObserver(() => {
    if (picture.clientWidth > 0 && picture.clientWidth !== plot.width) plot.setSize({ width: picture.clientWidth, height: 160 });
  }).observe(picture);
  return box;
}

const KINDS = [
  { field: "in_per_s", name: "Records in per second", show: w.rate },
  { field: "busy", name: "Busy (busiest subtask)", show: w.share, range: [0, 1] },
  { field: "backpressured", name: "Backpressured (worst subtask)", show: w.share, range: [0, 1] },
  { field: "watermark_ms", name: "Watermark behind the clock", show: (s) => w.span(s * 1000), lag: true },
];

export class Charts {
  constructor() {
    this.element = el("div", { class: "charts" });
    this.times = [];
    this.columns = new Map();
    this.made = [];
    dark.addEventListener("change", () => this.draw(this.plan));
    new ResizeObserver(() => this.#resize()).observe(this.element);
  }

  load(history) {
    this.times = [];
    this.columns = new Map(history.vertices.map((each) => [each.id, Object.fromEntries(KINDS.map((k) => [k.field, []]))]));
    history.time_ms.forEach((moment, place) => {
      this.#add(moment, (id, field) => history.vertices.find((each) => each.id === id)[field][place]);
    });
  }

  add(status) {
    const found = new Map(status.vertices.map((each) => [each.id, each]));
    for (const id of found.keys()) {
      if (!this.columns.has(id)) this.columns.set(id, Object.fromEntries(KINDS.map((k) => [k.field, this.times.map(() => null)])));
    }
    const last = this.times.at(-1);
    if (last !== undefined && status.time_ms / 1000 - last < 0.8) return;
    this.#add(status.time_ms, (id, field) => found.get(id)?.[field] ?? null);
    this.#show();
  }

  #add(ms, value) {
    const last = this.times.at(-1), now = ms / 1000;
    if (last !== undefined && now <= last) return;
    // Over a pause no line is drawn.
    if (last !== undefined && now - last > GAP_S) this.#push(last + 1, () => null);
    this.#push(now, (id, kind) => {
      const found = value(id, kind.field);
      if (found === null || !kind.lag) return found;
      const behind = now - found / 1000;
      return Math.abs(behind) < 86_400 ? Math.max(0, behind) : null;
    });
  }

  #push(now, value) {
    this.times.push(now);
    for (const [id, fields] of this.columns) for (const kind of KINDS) fields[kind.field].push(value(id, kind));
    if (this.times.length > MOST) {
      this.times.shift();
      for (const fields of this.columns.values()) for (const kind of KINDS) fields[kind.field].shift();
    }
  }

  draw(plan) {
    this.plan = plan;
    for (const each of this.made) each.plot.destroy();
    this.made = [];
    this.element.replaceChildren();
    if (!plan || typeof uPlot === "undefined") return;
    for (const kind of KINDS) this.#make(kind);
    this.#show();
  }

  #make(kind) {
    const colours = dark.matches ? DARK : LIGHT;
    const show = (_, value) => (value === null || value === undefined ? w.NOTHING : kind.show(value));
    const series = this.plan.vertices.map((each, place) => ({
      label: w.plain(label(each), 40), stroke: colours[place % colours.length], width: 2, value: show,
      dash: place >= colours.length ? [6, 4] : [], points: { show: false },
    }));
    const picture = el("div", { role: "img" });
    const box = el("section", { class: "chart" }, el("h3", {}, kind.name), picture);
    this.element.append(box);
    const plot = new uPlot({
      width: Math.max(200, picture.clientWidth), height: 180, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: kind.range ?? ((_, low, high) => [0, Math.max(high ?? 0, 1e-3) * 1.05]) } },
      axes: [{ ...axis(), space: 80, values: (_, ticks) => ticks.map(clock) },
        { ...axis(), size: 66, values: (_, ticks) => ticks.map((tick) => kind.show(tick)) }],
      series: [{ label: "time", value: (_, s) => (s === null ? w.NOTHING : w.moment(s * 1000)) }, ...series],
    }, [[], ...series.map(() => [])], picture);
    this.made.push({ kind, plot, picture, box });
  }

  #show() {
    for (const { kind, plot, picture, box } of this.made) {
      const columns = this.plan.vertices.map((each) => this.columns.get(each.id)?.[kind.field] ?? this.times.map(() => null));
      box.hidden = Boolean(kind.lag) && !columns.some((each) => each.some((value) => value !== null));
      plot.setData([this.times, ...columns]);
      const now = this.plan.vertices.map((each, place) => `${label(each)} ${show(kind, columns[place].at(-1))}`);
      picture.setAttribute("aria-label", w.plain(`${kind.name}, now: ${now.join("; ")}`, 600));
    }
  }

  #resize() {
    for (const { plot, picture } of this.made) {
      if (picture.clientWidth > 0 && picture.clientWidth !== plot.width) plot.setSize({ width: picture.clientWidth, height: 180 });
    }
  }
}

const show = (kind, value) => (value === null || value === undefined ? w.NOTHING : kind.show(value));

// Elements of the page. Text goes in as text only: nothing here, or elsewhere, parses markup.

import { plain } from "./wording.js";

const SVG = "http://www.w3.org/2000/svg";

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : plain(child));
  }
  return made;
}

export const el = (tag, properties = {}, ...children) => filled(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), properties, children);

export function say(element, text, most) {
  const shown = plain(text, most);
  if (element.textContent !== shown) element.textContent = shown;
}

export function facts(list, pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined);
  if (list.children.length !== shown.length) {
    list.replaceChildren(...shown.map(() => el("div", {}, el("dt"), el("dd"))));
  }
  shown.forEach(([name, value], place) => {
    const [dt, dd] = list.children[place].children;
    say(dt, name);
    say(dd, value, 300);
  });
}

// A table whose rows stay the same elements, so that focus and selection outlive its updates.
export class Table {
  // columns: [{name, text: true for words, head: true for the row's heading}]
  constructor(caption, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.body = el("tbody");
    const kind = (each) => (each.wide ? "text wide" : each.text ? "text" : null);
    const heads = columns.map((each) => el("th", { scope: "col", class: kind(each) }, each.name));
    const table = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), this.body);
    this.element = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  }

  // rows: [[key, [cell, ...]]]; a cell is a text, {text, kind}, or {make: () => element} that is made once.
  update(rows) {
    const keys = new Set(rows.map(([key]) => key));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) { row.remove(); this.rows.delete(key); }
    }
    rows.forEach(([key, cells], place) => {
      let row = this.rows.get(key);
      if (row === undefined) { row = this.#row(); this.rows.set(key, row); }
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
      cells.forEach((cell, at) => this.#fill(row.children[at], cell, this.columns[at]));
    });
  }

  #row() {
    const cell = (each) =>
      each.head ? el("th", { scope: "row", class: each.text ? "text" : null }) : el("td", { class: each.text ? "text" : null });
    return el("tr", {}, this.columns.map(cell));
  }

  #fill(element, cell, column) {
    if (cell !== null && typeof cell === "object" && cell.make) {
      if (!element.firstChild) element.append(cell.make());
      return;
    }
    const { text, kind } = cell !== null && typeof cell === "object" ? cell : { text: cell, kind: "" };
    say(element, text, 600);
    const wanted = [column.text ? "text" : "", kind ?? ""].filter(Boolean).join(" ");
    if (element.className !== wanted) element.className = wanted;
  }
}

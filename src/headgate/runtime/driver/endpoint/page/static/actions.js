// What can be asked of the job. Each action says what it does and repeats the job's name before it does it.

import { el } from "./making.js";
import { outcome, tell } from "./asking.js";

const number = (name, value) => ({ name, label: "Subtasks of operators", type: "number", value, min: 1, required: true });
const place = { name: "target", label: "Folder or URI; empty: as configured", type: "text" };

const levels = { name: "level", label: "Least level", type: "select", options: ["debug", "info", "warning", "error", "unset"] };
const logger = { name: "logger", label: "Logger, with those below it; empty: all", type: "text" };

const ACTIONS = [
  { name: "checkpoint", button: "Checkpoint", text: "Takes a checkpoint now; the job goes on.", fields: [] },
  { name: "savepoint", button: "Savepoint...", text: "Takes a savepoint; the job goes on.", fields: [place] },
  { name: "rescale", button: "Rescale...", text: "Takes a checkpoint, and goes on from it with another number of subtasks.", fields: [number("parallelism")] },
  { name: "log-level", button: "Log level...", fields: [levels, logger],
    text: "Changes how much driver and workers log, until the job ends or the level is unset." },
  { name: "stop", button: "Stop...", text: "Takes a savepoint and ends the job with it; its output up to there is committed.",
    fields: [place, { name: "drain", label: "Let event time end first: all event-time timers fire", type: "checkbox" }] },
  { name: "cancel", button: "Cancel...", text: "Ends the job now, without a savepoint; output that is not committed is not published.", fields: [] },
];

export class Actions {
  constructor(buttons, outcomes, model) {
    this.outcomes = outcomes;
    this.model = model;
    this.buttons = ACTIONS.map((action) => el("button", { type: "button", onclick: () => this.#open(action) }, action.button));
    buttons.append(...this.buttons);
  }

  update(over) {
    for (const button of this.buttons) button.disabled = over;
  }

  #open(action) {
    const inputs = action.fields.map((field) => [field, field.type === "select"
      ? el("select", { name: field.name }, field.options.map((option) => el("option", { value: option }, option)))
      : el("input", {
        type: field.type, name: field.name, min: field.min, required: field.required,
        value: field.name === "parallelism" ? this.model.status.parallelism : null,
      })]);
    const labels = inputs.map(([field, input]) => (field.type === "checkbox"
      ? el("label", { class: "line" }, input, field.label) : el("label", {}, field.label, input)));
    const title = `${action.button.replace("...", "")} of job ${this.model.status.name}`;
    const dialog = el("dialog", { "aria-labelledby": "asked" },
      el("form", { method: "dialog", onsubmit: (event) => {
        event.preventDefault();
        dialog.close();
        if (event.submitter?.value === "yes") this.#do(action, inputs);
      } },
      el("h2", { id: "asked" }, title), el("p", {}, action.text), labels,
      el("div", { class: "buttons" }, el("button", { class: "chief", value: "yes" }, `${action.button.replace("...", "")} ${this.model.status.name}`),
        el("button", { type: "button", onclick: () => dialog.close() }, "Leave it"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  async #do(action, inputs) {
    const body = {};
    for (const [field, input] of inputs) {
      if (field.type === "checkbox") body[field.name] = input.checked;
      else if (field.type === "number") body[field.name] = Number(input.value);
      else if (input.value) body[field.name] = input.value;
    }
    const line = el("p", { class: "strip advice" }, `${action.name} is under way`);
    this.outcomes.prepend(line);
    let text;
    try {
      const result = await outcome(await tell(`v1/${action.name}`, body));
      text = `${action.name}: ${result ?? "done"}`;
    } catch (error) {
      text = `${action.name} came to nothing: ${error.message}`;
      line.classList.remove("advice");
    }
    line.replaceChildren(el("span", {}, text), " ", el("button", { type: "button", class: "quiet", onclick: () => line.remove() }, "Dismiss"));
  }
}

// Puts the page together: what is known of the job, its parts, and who is told when something changes.

import { el, facts, say } from "./making.js";
import { ask, hasSecret, setSecret } from "./asking.js";
import { Actions } from "./actions.js";
import { Checkpoints } from "./checkpoints.js";
import { Ends } from "./ends.js";
import { Failures } from "./failures.js";
import { Live } from "./live.js";
import { Logs } from "./logs.js";
import { Output } from "./output.js";
import { Overview } from "./overview.js";
import { Profile } from "./profile.js";
import { State } from "./state.js";
import { Settings } from "./settings.js";
import { Subtasks } from "./subtasks.js";
import * as w from "./wording.js";

const at = (id) => document.getElementById(id);

const model = {
  status: null, plan: null, checkpoints: [], story: { attempts: [], notes: [] }, chosen: 0,
  // Bytes of state by vertex, of the newest checkpoint that was completed.
  stateSizes() {
    const newest = this.checkpoints.findLast((each) => each.status === "completed");
    return new Map(Object.entries(newest?.state ?? {}).map(([id, size]) => [Number(id), size]));
  },
};

const parts = [
  ["Overview", new Overview(choose)], ["Subtasks", new Subtasks(choose)], ["Sources and sinks", new Ends()], ["Checkpoints", new Checkpoints()],
  ["Failures", new Failures()], ["State", new State()], ["Profile", new Profile()], ["Output", new Output()],
  ["Logs", new Logs()], ["Configuration", new Settings()],
];
let open = 0;
const actions = new Actions(at("buttons"), at("outcomes"), model);
const live = new Live(taken, connected);

function choose(vertex) {
  model.chosen = vertex;
  show(1);
}

function show(place) {
  open = place;
  tabs.forEach((tab, number) => {
    tab.setAttribute("aria-selected", String(number === place));
    tab.tabIndex = number === place ? 0 : -1;
  });
  const [name, part] = parts[place];
  const panel = el("div", { role: "tabpanel", id: "panel", "aria-label": name }, part.element);
  at("part").replaceChildren(panel);
  update();
}

const tabs = parts.map(([name], place) => el("button", {
  type: "button", role: "tab", "aria-controls": "panel", onclick: () => show(place),
  onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = (place + step + parts.length) % parts.length;
    show(next);
    tabs[next].focus();
  },
}, name));
at("tabs").append(...tabs);

function update() {
  if (model.plan === null) return;
  // A part that asks for more may fail as the connection does; that is shown already.
  Promise.resolve(parts[open][1].update(model)).catch(() => {});
}

// What changes seldom is asked for when the status says that there is something new.
const asked = { plans: null, checkpoints: null, story: null };

async function fetchNews(status) {
  if (asked.plans !== status.plans) {
    asked.plans = status.plans;
    const [plan, history] = await Promise.all([ask("v1/plan"), ask("v1/history")]);
    model.plan = plan;
    overview().charts.load(history);
    for (const [, part] of parts) part.planned?.(model);
    update();
  }
  // Of one that is in progress the times grow; they are of interest while they are seen.
  const growing = status.pending.length && parts[open][0] === "Checkpoints" ? status.time_ms : 0;
  const checkpoints = [status.checkpoints_triggered, status.checkpoints_completed, status.checkpoints_failed, growing].join();
  if (asked.checkpoints !== checkpoints) {
    asked.checkpoints = checkpoints;
    model.checkpoints = (await ask("v1/checkpoint-times")).checkpoints;
  }
  if (status.story !== null) return;
  const story = [status.attempt, status.state, status.failures, status.notes].join();
  if (asked.story !== story) {
    asked.story = story;
    model.story = await ask("v1/failures");
  }
}

const overview = () => parts[0][1];
let fetching = null;

function taken(status) {
  model.status = status;
  head(status);
  strips(status);
  overview().charts.plan && overview().charts.add(status);
  if (status.story !== null) model.story = status.story;
  fetching ??= fetchNews(status).catch(() => { asked.plans = asked.checkpoints = asked.story = null; })
    .finally(() => { fetching = null; update(); });
}

function head(status) {
  say(at("name"), status.name, 200);
  document.title = w.plain(`${status.name}: ${status.state}`, 200);
  const badge = at("state");
  say(badge, status.state);
  badge.className = `badge ${/^[a-z]+$/.test(status.state) ? status.state : ""}`;
  const latest = status.latest_checkpoint === null ? "none" : `${status.latest_checkpoint}, took ${w.span(status.latest_duration_ms)}`;
  facts(at("facts"), [
    ["running for", w.span(status.time_ms - status.started_ms)], ["attempt", w.count(status.attempt)], ["restarts", w.count(status.restarts)],
    ["parallelism", `${status.parallelism} of at most ${w.count(status.max_parallelism)}`], ["checkpoint", latest],
    ["savepoint", status.savepoint], ["id", status.job_id],
  ]);
  links(status.links);
  actions.update(status.over);
}

let linksShown = "";

// To pages of others, such as Spark's; an address of another kind than these would be a script.
function links(found) {
  const now = JSON.stringify(found);
  if (now === linksShown) return;
  linksShown = now;
  const shown = Object.entries(found).filter(([, address]) => /^https?:\/\//.test(address));
  at("links").hidden = shown.length === 0;
  at("links").replaceChildren(...shown.map(([name, address]) =>
    el("a", { href: address, rel: "noreferrer", target: "_blank" }, name.replaceAll("_", " "))));
}

let stripsShown = "";

function strips(status) {
  const found = [];
  if (status.restart_at_ms !== null && status.state !== "running") {
    const left = Math.max(0, status.restart_at_ms - status.time_ms);
    found.push(["", `Restart ${status.failures}: the next try in ${w.span(left)}. ${status.last_failure ?? ""}`]);
  } else if (status.state === "failed") found.push(["", status.last_failure ?? "The job has failed."]);
  if (status.repeating !== null) found.push(["", status.repeating.text]);
  for (const each of status.stuck) found.push(["", `${each.operator}, subtask ${each.subtask}, is busy for ${w.span(each.for_ms)} without progress.`]);
  if (status.bottleneck !== null) found.push(["advice", status.bottleneck.text]);
  const now = JSON.stringify(found);
  if (now === stripsShown) return;
  stripsShown = now;
  at("strips").replaceChildren(...found.map(([kind, text]) => el("p", { class: `strip ${kind}` }, w.plain(text, 1000))));
}

const WORDS = { live: "live", over: "the job is over", refused: "the secret is not the job's" };

function connected(state) {
  const when = state === "over" ? `; this is its status of ${w.moment(model.status.time_ms)}` : "";
  say(at("connection"), `${WORDS[state] ?? state}${when}`, 300);
  if (state === "refused") askForSecret();
}

function askForSecret() {
  const input = el("input", { type: "password", autocomplete: "off", required: true });
  const dialog = el("dialog", { "aria-labelledby": "secret" }, el("form", { method: "dialog", onsubmit: (event) => {
    event.preventDefault();
    setSecret(input.value);
    dialog.close();
    live.start();
  } },
  el("h2", { id: "secret" }, "The job's secret"),
  el("p", {}, "`headgate ui JOB` prints an address with the secret in it; open that, or give the secret here."),
  el("label", {}, "Secret", input), el("button", { class: "chief" }, "Open")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

addEventListener("hashchange", () => { if (location.hash.includes("secret=")) location.reload(); });
show(0);
if (hasSecret()) live.start();
else { connected("refused"); }

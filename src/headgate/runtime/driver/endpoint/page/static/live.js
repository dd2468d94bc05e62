// The job's status as it changes: server-sent events where there is room, else a request every five seconds.
// A page that is not seen asks for nothing, so that it takes no connection from those that are.

import { ask, request, Refused } from "./asking.js";

const POLL_MS = 5000;
const SILENT_MS = 6000;
const WAIT_MS = [500, 1000, 2000, 5000, 10000];

const sleep = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); });
  });

export class Live {
  // onStatus gets each status; onConnection gets "live", "every 5 s", "no answer: ...", "refused" or "over".
  constructor(onStatus, onConnection) {
    this.onStatus = onStatus;
    this.onConnection = onConnection;
    this.over = false;
    this.stopping = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.start()));
  }

  start() {
    if (this.stopping !== null || this.over) return;
    this.stopping = new AbortController();
    this.#follow(this.stopping.signal);
  }

  pause() {
    this.stopping?.abort();
    this.stopping = null;
  }

  async #follow(signal) {
    let failures = 0;
    while (!signal.aborted && !this.over) {
      try {
        await this.#stream(signal, () => { failures = 0; });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && error.status === 503) { await this.#poll(signal); continue; }
        if (error instanceof Refused && error.status === 401) { this.pause(); this.onConnection("refused"); return; }
        this.onConnection(`no answer: ${error.message}`);
      }
      if (this.over) break;
      await sleep(WAIT_MS[Math.min(failures, WAIT_MS.length - 1)], signal);
      failures += 1;
    }
    if (this.over) { this.stopping = null; this.onConnection("over"); }
  }

  async #stream(signal, heard) {
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort());
    let timer = null;
    const patience = () => { clearTimeout(timer); timer = setTimeout(() => stop.abort(new Error("silent")), SILENT_MS); };
    try {
      patience();
      const answer = await request("v1/events", { signal: stop.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        patience();
        heard();
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        events.forEach((event) => this.#take(event));
      }
    } finally {
      clearTimeout(timer);
      stop.abort();
    }
  }

  #take(event) {
    const lines = Object.fromEntries(event.split("\n").map((line) => {
      const at = line.indexOf(": ");
      return [line.slice(0, at), line.slice(at + 2)];
    }));
    const data = JSON.parse(lines.data);
    if (lines.event === "silence") this.onConnection(`no answer: ${data.message}`);
    else this.#status(data, "live");
  }

  // Asks for a minute, then tries whether there is room for a stream again.
  async #poll(signal) {
    const until = Date.now() + 60_000;
    while (!signal.aborted && !this.over && Date.now() < until) {
      this.#status(await ask("v1/snapshot", { signal }), "every 5 s");
      if (!this.over) await sleep(POLL_MS, signal);
    }
  }

  #status(status, connection) {
    this.over = status.over;
    this.onStatus(status);
    this.onConnection(this.over ? "over" : connection);
  }
}

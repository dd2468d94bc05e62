// Requests to the job's driver. The secret comes in the part of the address that no browser sends, and is kept
// for this origin (port included) and this tab: cookies would be shared by all jobs on the machine.

const KEPT = "headgate.secret";

function fromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("secret");
  if (found) {
    sessionStorage.setItem(KEPT, found);
    history.replaceState(null, "", location.pathname);
  }
  return found ?? sessionStorage.getItem(KEPT);
}

let secret = fromAddress();

export const hasSecret = () => Boolean(secret);

export function setSecret(text) {
  secret = text.trim();
  sessionStorage.setItem(KEPT, secret);
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function request(path, options = {}) {
  const headers = { Authorization: `Bearer ${secret ?? ""}`, ...options.headers };
  const answer = await fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", ...options, headers });
  if (answer.ok) return answer;
  let message = `the driver answered ${answer.status}`;
  try { message = (await answer.json()).error.message; } catch { /* it is no JSON */ }
  throw new Refused(answer.status, message);
}

export const ask = async (path, options) => (await request(path, options)).json();

export const tell = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export async function outcome(operation) {
  let found = operation;
  while (found.state === "running") found = await ask(`v1/operations/${found.operation}?wait_ms=10000`);
  if (found.state === "failed") throw new Refused(200, found.error.message);
  return found.result;
}

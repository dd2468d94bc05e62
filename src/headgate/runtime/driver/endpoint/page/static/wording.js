// Numbers, times and foreign texts as people read them. What is not known is a dash, and never 0.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const NOTHING = "-";
export const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

export const count = (value) => (known(value) ? whole.format(value) : NOTHING);
export const rate = (value) => (known(value) ? `${short.format(value)}/s` : NOTHING);
export const share = (value) => (known(value) ? `${Math.round(value * 100)} %` : NOTHING);
export const times = (value) => (known(value) ? `${value.toFixed(1)}x` : NOTHING);

export function bytes(value) {
  if (!known(value)) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${place === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[place]}`;
}

export function span(ms) {
  if (!known(ms)) return NOTHING;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function moment(ms) {
  if (!known(ms)) return NOTHING;
  // Event time may be anything; what a date cannot be is shown as a number.
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? count(ms) : date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "Z");
}

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb]/g;
const HALVES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

// Characters that do not show, turn the direction of writing, or are no characters are written out.
export function plain(text, most = 4000) {
  const found = String(text ?? "");
  const cut = found.length > most ? `${found.slice(0, most)}... (${whole.format(found.length)} characters)` : found;
  const out = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return cut.replace(HALVES, out).replace(HIDDEN, out);
}

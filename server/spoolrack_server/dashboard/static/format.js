// How numbers, spans, moments and bodies are written. Whatever comes from a message is text, and stays text.

const whole = new Intl.NumberFormat("en-US");
export const number = (value) => whole.format(value);

export function short(value) {
  if (value < 10_000) return number(value);
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${(value / size).toFixed(value >= size * 100 ? 0 : 1)} ${unit}`;
  }
  return number(value);
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  let unit = -1;
  do { value /= 1024; unit += 1; } while (value >= 1023.95 && unit < 4);
  return `${value.toFixed(value < 100 ? 1 : 0)} ${"KMGTP"[unit]}iB`;
}

// A span in milliseconds in at most two units.
export function span(millis) {
  if (millis == null) return "–";
  if (millis < 1000) return `${Math.max(0, Math.round(millis))} ms`;
  const seconds = Math.floor(millis / 1000);
  if (seconds < 60) return `${seconds} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const count = Math.floor(seconds / size);
  const [nextName, nextSize] = units[first + 1] || [];
  const rest = nextSize && count < 10 ? Math.floor((seconds % size) / nextSize) : 0;
  return rest ? `${count} ${name} ${rest} ${nextName}` : `${count} ${name}`;
}

// A span in seconds; none is no span.
export const age = (seconds) => span(seconds == null ? null : seconds * 1000);

// What heads a column of ages: short, whole.
export function bound(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 360) / 10} h`;
  return `${Math.round(seconds / 8640) / 10} d`;
}

export function rate(perSecond) {
  if (perSecond == null) return "–";
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "< 0.1";
  if (perSecond < 10) return perSecond.toFixed(1);
  return short(Math.round(perSecond));
}

// A time in milliseconds, or as the text that the server writes.
export function moment(time) {
  if (time == null) return "–";
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? String(time) : date.toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

export function decoded(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) found[at] = text.charCodeAt(at);
  return found;
}

// The bytes of a message's body, or of its beginning.
export const bodyOf = (message) => (message.body === undefined ? decoded(message.binary_body) : new TextEncoder().encode(message.body));

// The text of some bytes; null if they are none. A character that was cut in two at the end is left out.
export function textOf(raw, isCut) {
  for (let cut = 0; cut <= (isCut ? 3 : 0); cut += 1) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw.subarray(0, raw.length - cut));
    } catch { /* not there */ }
  }
  return null;
}

// Control characters and those that turn the direction of a text are shown as what they are: a message
// must not be able to look like another one.
export function visible(text) {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function looksBinary(text) {
  const strange = text.slice(0, 2000).match(/[\u0000-\u0008\u000e-\u001f]/g);
  return strange !== null && strange.length > text.length / 20;
}

export function hex(raw) {
  const lines = [];
  for (let at = 0; at < raw.length; at += 16) {
    const row = Array.from(raw.subarray(at, at + 16));
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ");
    const right = digits.slice(8).join(" ");
    const plain = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left.padEnd(23)}  ${right.padEnd(23)}  ${plain}`);
  }
  return lines.join("\n");
}

export function prettyJson(text) {
  try {
    const found = JSON.parse(text);
    return typeof found === "object" && found !== null ? JSON.stringify(found, null, 2) : null;
  } catch {
    return null;
  }
}

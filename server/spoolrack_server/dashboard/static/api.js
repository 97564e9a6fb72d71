// Asks the server over its public HTTP, and says who asks. A token lives in this tab's sessionStorage alone, and travels in a
// header alone: no cookie, nothing in an address. Errors are as the server says them.

const TOKEN = "spoolrack.token";
let token = null;
try { token = sessionStorage.getItem(TOKEN); } catch { /* for this page only */ }

// The shard that the page shows, such as 2/8: "?shard=" of its address. A proxy takes requests with this header to that shard.
export const [shard] = /^\d+\/\d+$/.exec(new URLSearchParams(location.search).get("shard") ?? "") ?? [];
export const ofShard = (named) => (named ? { "x-spoolrack-shard": named } : {});

export class Refusal extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

// Who wants to know that a token is needed, or was refused.
let onStranger = () => {};
export function whenStranger(told) { onStranger = told; }

export function hasToken() { return token !== null; }

export function setToken(given) {
  token = given || null;
  try {
    if (token === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, token);
  } catch { /* for this page only */ }
}

async function ask(path, options) {
  const headers = { Accept: "application/json", ...ofShard(shard), ...options.headers };
  const mine = token;
  if (mine !== null) headers.Authorization = `Bearer ${mine}`;
  let response;
  try {
    // Relative to /-/dashboard: a proxy may serve it under a prefix.
    response = await fetch(path, {
      ...options, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "UNREACHABLE", "The server can't be reached. Is it running, and is the network there?");
  }
  let content = null;
  try { content = await response.json(); } catch (error) {
    if (error.name === "AbortError" || error.name === "TimeoutError") throw error;
  }
  if (response.ok) return content || { id: response.headers.get("X-Message-Id") };
  const told = content && content.message ? content.message : `The server answered ${response.status} and said nothing else.`;
  const refusal = new Refusal(response.status, (content && content.reason) || "UNKNOWN", told);
  // What was asked under another name is answered already.
  if (response.status === 401 && mine === token) onStranger(refusal);
  throw refusal;
}

export function get(path, query = {}, signal = undefined, headers = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const asked = new URLSearchParams(wanted).toString();
  return ask(asked ? `${path}?${asked}` : path, { method: "GET", signal, headers });
}

// A change: of JSON, if it has a `content`.
export function change(method, path, content, headers = {}) {
  if (content === undefined) return ask(path, { method, headers });
  return ask(path, { method, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(content) });
}

export function send(queue, body, headers) {
  // Bytes, so that the browser adds no Content-Type, which would be an attribute of the message.
  return ask(`../${encodeURIComponent(queue)}/messages`, { method: "POST", headers, body: new TextEncoder().encode(body) });
}

// A queue itself, and what is below it.
export const queuePath = (queue) => `../${encodeURIComponent(queue)}`;
export const below = (queue, what) => `queues/${encodeURIComponent(queue)}/${what}`;

// What the server's clock says: as of the last answer that told, and of what has passed since.
let ahead = 0;
export const now = () => Date.now() + ahead;
export async function getServer(signal) {
  const server = await get("server", {}, signal);
  ahead = Date.parse(server.time) - Date.now();
  return server;
}

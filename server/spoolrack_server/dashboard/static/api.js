// Asks the server, and says who asks. A token lives in this tab's sessionStorage alone, and travels in a
// header alone: no cookie, nothing in an address. Errors are as the server says them.

const TOKEN = "spoolrack.token";
let token = null;
try { token = sessionStorage.getItem(TOKEN); } catch { /* for this page only */ }

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
  const headers = { Accept: "application/json", ...options.headers };
  const mine = token;
  if (mine !== null) headers.Authorization = `Bearer ${mine}`;
  let response;
  try {
    response = await fetch(`api/${path}`, {
      ...options, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "UNREACHABLE", "The server can't be reached. Is it running, and is the network there?");
  }
  let content = null;
  try { content = await response.json(); } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && content !== null) return content;
  const told = content && content.message ? content.message : `The server answered ${response.status} and said nothing else.`;
  const refusal = new Refusal(response.status, (content && content.reason) || "UNKNOWN", told);
  // What was asked under another name is answered already.
  if (response.status === 401 && mine === token) onStranger(refusal);
  throw refusal;
}

export function get(path, query = {}, signal = undefined) {
  const wanted = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const asked = new URLSearchParams(wanted).toString();
  return ask(asked ? `${path}?${asked}` : path, { method: "GET", signal });
}

// The header is what another site's page can't send: see permits.py.
export function change(path, content) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Spoolrack-Dashboard": "1" },
    body: JSON.stringify(content),
  });
}

export const queuePath = (queue) => `queues/${encodeURIComponent(queue)}`;

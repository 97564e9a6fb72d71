// What the pages are made of: words for what went wrong or isn't there, dialogs, tables that are sorted.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm/standalone.module.js";

// What is polled and what it told: the page stays as it was while the server can't be reached, and says so.
export function Told({ poll, children }) {
  const { found, error } = poll;
  if (found === null && error === null) return html`<p class="quiet" role="status">Asking the server…</p>`;
  return html`
    ${error !== null && html`<${Failed} error=${error} again=${poll.again} isOld=${found !== null} />`}
    ${found !== null && children}
  `;
}

export function Failed({ error, again, isOld }) {
  const title = error.status === 401 ? "The server doesn't know who asks"
    : error.status === 403 ? "Not permitted"
    : error.status === 404 ? "Not found"
    : error.status === 0 ? "No answer" : "The server refused";
  const told = error.message || String(error);
  return html`<div class="failed" role="alert">
    <strong>${title}.</strong> ${told}${" "}
    ${isOld && html`<span>The page shows the state before that. </span>`}
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

// The state of a sort: [{key, down}, props for the header of a column].
export function useSort(first, isDown = false) {
  const [by, setBy] = useState({ key: first, down: isDown });
  const head = (key, startsDown = true) => ({
    by, key,
    turn: () => setBy(by.key === key ? { key, down: !by.down } : { key, down: startsDown }),
  });
  return [by, head];
}

export function sorted(rows, { key, down }, value) {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a, key), value(b, key)];
    // What has no value stands last, whichever way.
    if (x == null || y == null) return (x == null) - (y == null) || (a.name < b.name ? -1 : 1);
    return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : 1);
  });
}

export function Column({ sort, label, hint, right }) {
  const { by, key, turn } = sort;
  const order = by.key === key ? (by.down ? "descending" : "ascending") : undefined;
  return html`<th scope="col" class=${right ? "right" : ""} aria-sort=${order}>
    <button type="button" class="sort" title=${hint} onClick=${turn}>${label}<span aria-hidden="true" class="arrow">${order === "descending" ? "▾" : order === "ascending" ? "▴" : ""}</span></button>
  </th>`;
}

// A modal dialog of the browser's own: it keeps the focus inside, and Escape closes it.
export function Dialog({ title, onClose, isLarge, children }) {
  const box = useRef(null);
  const isOver = useRef(false);
  useLayoutEffect(() => {
    const [dialog, before] = [box.current, document.activeElement];
    dialog.showModal();
    return () => {
      isOver.current = true;
      // As long as it is open, nothing behind it takes the focus.
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const closed = () => { if (!isOver.current) onClose(); };
  return html`<dialog ref=${box} class=${isLarge ? "large" : ""} aria-labelledby="dialog-title" onClose=${closed} onCancel=${closed}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

// Asks before something is done; with `typed`, that text has to be typed. `act` does it, and its error is shown.
export function Confirm({ title, button, typed, onClose, act, children }) {
  const [text, setText] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isAllowed = (typed === undefined || text === typed) && !isBusy;
  async function done(event) {
    event.preventDefault();
    if (!isAllowed) return;
    setBusy(true);
    setError(null);
    try {
      await act();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${done}>
      ${children}
      ${typed !== undefined && html`<label class="stacked">Type the queue's name, <code>${typed}</code>, to confirm
        <input autocomplete="off" spellcheck=${false} autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></label>`}
      ${error && html`<${Failed} error=${error} />`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="danger" disabled=${!isAllowed}>${isBusy ? "Working…" : button}</button>
      </div>
    </form>
  </${Dialog}>`;
}

// What was done, said to all: on the screen for a while, and to a screen reader.
let told = () => {};
export const tell = (text) => told(text);

export function Notices() {
  const [text, setText] = useState("");
  useEffect(() => {
    let timer;
    told = (said) => { setText(said); clearTimeout(timer); timer = setTimeout(() => setText(""), 8000); };
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="notice" role="status" aria-live="polite">${text && html`<span>${text}</span>`}</div>`;
}

// j and k move through the rows of a table, by the links or buttons in them.
export function moveIn(table, step) {
  const stops = table ? Array.from(table.querySelectorAll("[data-row]")) : [];
  if (stops.length === 0) return;
  const at = stops.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, at + step));
  stops[next].focus();
}

// A click anywhere in a row is one on its link or button; to mark a text, or to click something else in the row, is not.
export function openRow(event) {
  const row = event.target.closest("tbody tr:not(.inside)");
  const stop = row && row.querySelector("[data-row]");
  if (!stop || event.target.closest("a, button, input, label, .inside") || String(getSelection())) return;
  stop.click();
}

// `values` end at the right; those that are null, at the beginning, are not drawn.
export function Sparkline({ values, label }) {
  const [wide, high] = [96, 18];
  const first = Math.max(0, values.findIndex((value) => value !== null));
  const known = values.slice(first).map((value) => value || 0);
  const most = Math.max(1, ...known);
  const step = wide / (values.length - 1);
  const start = first * step;
  const points = known.map((value, at) => `${(start + at * step).toFixed(1)},${(high - 1.5 - (value / most) * (high - 3)).toFixed(1)}`);
  return html`<svg class="spark" width=${wide} height=${high} viewBox="0 0 ${wide} ${high}" role="img" aria-label=${label}>
    ${known.length > 1 && html`<polygon points=${`${start.toFixed(1)},${high} ${points.join(" ")} ${wide},${high}`} /><polyline points=${points.join(" ")} />`}
  </svg>`;
}

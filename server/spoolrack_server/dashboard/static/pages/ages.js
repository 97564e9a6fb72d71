// Age × queue: where messages wait, and since when. Postfix's qshape taught this picture to its operators.

import { html } from "../vendor/htm/standalone.module.js";
import { seek } from "../address.js";
import { get } from "../api.js";
import * as format from "../format.js";
import { Empty, Told, openRow } from "../parts.js";
import { usePoll } from "../poll.js";

const ROWS = 200;
const SHADES = 6;

// Shades by magnitude: a queue of ten must be seen beside one of a million.
export function shade(count, most) {
  if (count === 0) return 0;
  return Math.max(1, Math.min(SHADES, Math.ceil((Math.log(count + 1) / Math.log(most + 1)) * SHADES)));
}

export function Cells({ names, counts, most }) {
  return counts.map((count, at) => html`<td key=${at} data-label=${names[at]} class="right shade${shade(count, most)}">${count === 0 ? "·" : format.short(count)}</td>`);
}

export function bucketNames(bounds) {
  return [...bounds.map((bound) => `< ${format.bound(bound)}`), `≥ ${format.bound(bounds[bounds.length - 1])}`];
}

const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

export function Ages({ query: { contains: filter = "", first = "15" } }) {
  const poll = usePoll((signal) => get("ages", { first, contains: filter }, signal), 3000, `ages ${first} ${filter}`);
  const found = poll.found;
  let rows = [];
  let sums = [];
  if (found !== null) {
    rows = found.queues.map((row) => ({ ...row, total: total(row.counts) })).filter((row) => row.total > 0);
    rows.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
    sums = found.bounds.concat(0).map((_, at) => rows.reduce((sum, row) => sum + row.counts[at], 0));
  }
  const shown = rows.slice(0, ROWS);
  const names = found === null ? [] : bucketNames(found.bounds);
  const most = Math.max(1, ...shown.map((row) => Math.max(...row.counts)));
  return html`
    <div class="bar">
      <h1>Ages</h1>
      <label class="filter">Filter <kbd aria-hidden="true">/</kbd>
        <input type="search" data-filter placeholder="part of a name" maxlength="80" spellcheck=${false} autocomplete="off" value=${filter} onInput=${(event) => seek({ contains: event.target.value }, true)} /></label>
      <label>Finest age${" "}
        <select value=${first} onChange=${(event) => seek({ first: event.target.value })}>
          <option value="1">1 second</option><option value="15">15 seconds</option><option value="300">5 minutes</option>
        </select></label>
      <span class="quiet grow">Ready messages by the time since they were sent, the longest queues first.</span>
    </div>
    <${Told} poll=${poll}>
      ${found !== null && !found.are_all && html`<p class="hint">There are more queues than these: a filter finds the others.</p>`}
      ${rows.length > ROWS && html`<p class="hint">The ${ROWS} longest of ${format.number(rows.length)} queues with ready messages.</p>`}
      ${found !== null && (rows.length === 0 ? html`<${Empty}>${filter ? html`No ready message in a queue with “${filter}” in its name.` : "No message is ready: nothing waits."}</${Empty}>`
        : html`<div class="wide"><table class="ages stack" data-keys onClick=${openRow}>
        <caption class="hidden">Ready messages by queue and age</caption>
        <colgroup><col class="name" /><col class="n" />${found.bounds.concat(0).map((_, at) => html`<col key=${at} />`)}</colgroup>
        <thead><tr>
          <th scope="col">Queue</th><th scope="col" class="right">Total</th>
          ${names.map((name) => html`<th key=${name} scope="col" class="right">${name}</th>`)}
        </tr></thead>
        <tbody>
          <tr class="total"><th scope="row">All of these</th><td class="right" data-label="Total">${format.short(total(sums))}</td><${Cells} names=${names} counts=${sums} most=${Math.max(most, ...sums)} /></tr>
          ${shown.map((row) => html`<tr key=${row.name}>
            <th scope="row"><a data-row href="#/queue/${encodeURIComponent(row.name)}">${row.name}</a></th>
            <td class="right" data-label="Total">${format.short(row.total)}</td>
            <${Cells} names=${names} counts=${row.counts} most=${most} />
          </tr>`)}
        </tbody>
      </table></div>
      <p class="hint">A column to the right means old: a band that moves right is a queue that nobody empties.</p>`)}
    </${Told}>
  `;
}

// All queues in one table.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { get } from "../api.js";
import * as format from "../format.js";
import { Column, Empty, Sparkline, Told, sorted, useSort } from "../parts.js";
import { usePoll } from "../poll.js";
import { note, rates } from "../rates.js";
import { SettingsForm } from "./settings.js";

const ROWS = 100;
const TREND_EVERY = 10_000;
const NONE = Array(30).fill(null);

function value(row, key) {
  if (key === "entered" || key === "left") return row.rates[key];
  return row[key];
}

function Row({ row, trend }) {
  const quiet = (count) => (count === 0 ? "right zero" : "right");
  return html`<tr>
    <th scope="row"><a data-row href="#/queue/${encodeURIComponent(row.name)}">${row.name}</a>${row.is_dead_letter_queue && html`${" "}<span class="tag" title="another queue names it as its dead-letter queue">dead letters</span>`}${row.blocking && html`${" "}<span class="mark" title=${row.blocking}>blocked</span>`}</th>
    <td data-label="Ready" class=${quiet(row.ready)}>${format.short(row.ready)}</td>
    <td data-label="Leased" class=${quiet(row.leased)}>${format.short(row.leased)}</td>
    <td data-label="Delayed" class=${quiet(row.delayed)}>${format.short(row.delayed)}</td>
    <td data-label="Oldest" class=${row.oldest_age === null ? "right zero" : "right"}>${format.span(row.oldest_age)}</td>
    <td data-label="In/s" class=${quiet(row.rates.entered)}>${format.rate(row.rates.entered)}</td>
    <td data-label="Out/s" class=${quiet(row.rates.left)}>${format.rate(row.rates.left)}</td>
    <td class="trend"><${Sparkline} values=${[...trend, row.ready]} label="ready over the last hour" /></td>
    <td data-label="Size" class=${quiet(row.bytes)}>${format.bytes(row.bytes)}</td>
    <td data-label="Dead letters to" class="cut">${row.dead_letter_queue && html`<a href="#/queue/${encodeURIComponent(row.dead_letter_queue)}">${row.dead_letter_queue}</a>`}</td>
  </tr>`;
}

export function Queues() {
  const [filter, setFilter] = useState("");
  const [page, setPage] = useState(0);
  const [isCreating, setCreating] = useState(false);
  const [by, head] = useSort("name");
  const poll = usePoll(async (signal) => {
    const found = await get("queues", { contains: filter }, signal);
    note(found.queues, found.at, found.by);
    return found;
  }, 2000, `queues ${filter}`);
  const trends = usePoll((signal) => get("trends", { contains: filter }, signal), TREND_EVERY, `trends ${filter}`);
  const trendOf = (name) => (trends.found !== null && trends.found.queues[name]) || NONE;
  const found = poll.found;
  const rows = found === null ? [] : sorted(found.queues.map((row) => ({ ...row, rates: rates(row.name) })), by, value);
  const pages = Math.max(1, Math.ceil(rows.length / ROWS));
  const at = Math.min(page, pages - 1);
  const shown = rows.slice(at * ROWS, (at + 1) * ROWS);
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  return html`
    <div class="bar">
      <h1>Queues</h1>
      <label class="filter">Filter <kbd aria-hidden="true">/</kbd>
        <input type="search" data-filter placeholder="part of a name" maxlength="80" spellcheck=${false} autocomplete="off" value=${filter}
          onInput=${(event) => { setFilter(event.target.value); setPage(0); }} /></label>
      <span class="quiet grow" role="status">${found !== null && html`${format.number(rows.length)} ${rows.length === 1 ? "queue" : "queues"} · ${format.short(sum("ready"))} ready · ${format.short(sum("leased"))} leased · ${format.short(sum("delayed"))} delayed`}</span>
      ${pages > 1 && html`<span class="pager">
        <button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>Before</button>
        <span>${at + 1} of ${pages}</span>
        <button type="button" disabled=${at === pages - 1} onClick=${() => setPage(at + 1)}>Next</button>
      </span>`}
      ${found !== null && found.may_create && html`<button type="button" onClick=${() => setCreating(true)}>Create a queue…</button>`}
    </div>
    <${Told} poll=${poll}>
      ${found !== null && !found.are_all && html`<p class="hint">There are more: these are the first ${format.number(found.queues.length)} by name. A filter finds the others.</p>`}
      ${rows.length === 0 ? html`<${Empty}>${filter ? html`No queue that you may see has “${filter}” in its name.` : html`There is no queue yet, or none that you may see. <code>spoolrack queues create jobs</code> makes one.`}</${Empty}>`
        : html`<div class="wide"><table class="queues stack" data-keys>
        <caption class="hidden">Queues, their messages by state, their oldest message and their rates. The headers sort.</caption>
        <colgroup><col /><col class="n" /><col class="n" /><col class="n" /><col class="age" /><col class="n" /><col class="n" /><col class="trend" /><col class="n" /><col class="dlq" /></colgroup>
        <thead class="sorts"><tr>
          <${Column} sort=${head("name", false)} label="Queue" />
          <${Column} sort=${head("ready")} label="Ready" right hint="waiting to be received" />
          <${Column} sort=${head("leased")} label="Leased" right hint="with a consumer now" />
          <${Column} sort=${head("delayed")} label="Delayed" right hint="hidden until they are due" />
          <${Column} sort=${head("oldest_age")} label="Oldest" right hint="age of the oldest that is ready or leased" />
          <${Column} sort=${head("entered")} label="In/s" right hint="what this server process brought in" />
          <${Column} sort=${head("left")} label="Out/s" right hint="what this server process deleted, let expire or moved away" />
          <th scope="col" class="right">Ready, last hour</th>
          <${Column} sort=${head("bytes")} label="Size" right hint="bodies and attributes" />
          <th scope="col">Dead letters to</th>
        </tr></thead>
        <tbody>${shown.map((row) => html`<${Row} key=${row.name} row=${row} trend=${trendOf(row.name)} />`)}</tbody>
      </table></div>`}
    </${Told}>
    ${isCreating && html`<${SettingsForm} defaults=${found.defaults} onClose=${() => setCreating(false)} onDone=${(name) => { location.hash = `#/queue/${encodeURIComponent(name)}`; }} />`}
  `;
}

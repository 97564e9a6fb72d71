// All queues in one table.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { seek } from "../address.js";
import { get } from "../api.js";
import * as format from "../format.js";
import { Column, Empty, Sparkline, Told, openRow, sorted, useSort } from "../parts.js";
import { usePoll } from "../poll.js";
import { note, rates } from "../rates.js";
import { SettingsForm } from "./settings.js";

const MOST = 1_000;
const ROWS = 100;
const TREND_EVERY = 10_000;
const NONE = Array(30).fill(null);

// The queues whose names have `contains` in them, with what a list shows of each.
export function getQueues(contains, signal) {
  const fields = "name,counts,blocking_message,traffic,is_dead_letter_queue,permissions,settings.dead_letter_queue,settings.sending,settings.receiving";
  return get("queues", { contains, page_size: MOST, fields }, signal);
}

// What a queue doesn't do; "" if it does all.
export function pausedWords({ sending, receiving }) {
  if (sending === "paused") return receiving === "paused" ? "paused" : "sending paused";
  return receiving === "paused" ? "receiving paused" : "";
}

function value(row, key) {
  if (key === "entered" || key === "left") return row.rates[key];
  return key in row.counts ? row.counts[key] : row[key];
}

function Row({ row, trend }) {
  const { counts, settings: { dead_letter_queue: target } } = row;
  const paused = pausedWords(row.settings);
  const quiet = (count) => (count === 0 ? "right zero" : "right");
  return html`<tr class=${paused ? "paused" : ""}>
    <th scope="row"><a data-row href="#/queue/${encodeURIComponent(row.name)}">${row.name}</a>${paused && html`${" "}<span class="tag">${paused}</span>`}${row.is_dead_letter_queue && html`${" "}<span class="tag" title="another queue names it as its dead-letter queue">dead letters</span>`}${row.blocking_message && html`${" "}<span class="mark" title=${row.blocking_message.explanation}>blocked</span>`}</th>
    <td data-label="Ready" class=${quiet(counts.ready_count)}>${format.short(counts.ready_count)}</td>
    <td data-label="Leased" class=${quiet(counts.leased_count)}>${format.short(counts.leased_count)}</td>
    <td data-label="Delayed" class=${quiet(counts.delayed_count)}>${format.short(counts.delayed_count)}</td>
    <td data-label="Oldest" class=${counts.oldest_age === null ? "right zero" : "right"}>${format.age(counts.oldest_age)}</td>
    <td data-label="In/s" class=${quiet(row.rates.entered)}>${format.rate(row.rates.entered)}</td>
    <td data-label="Out/s" class=${quiet(row.rates.left)}>${format.rate(row.rates.left)}</td>
    <td class="trend"><${Sparkline} values=${[...trend, counts.ready_count]} label="ready over the last hour" /></td>
    <td data-label="Size" class=${quiet(counts.byte_count)}>${format.bytes(counts.byte_count)}</td>
    <td data-label="Dead letters to" class="cut">${target && html`<a href="#/queue/${encodeURIComponent(target)}">${target}</a>`}</td>
  </tr>`;
}

export function Queues({ server, query: { contains: filter = "" } }) {
  const [page, setPage] = useState(0);
  const [isCreating, setCreating] = useState(false);
  const [by, head] = useSort("name");
  const poll = usePoll(async (signal) => {
    const found = await getQueues(filter, signal);
    note(found.queues);
    return found;
  }, 2000, `queues ${filter}`);
  const trends = usePoll((signal) => get("trends", { contains: filter }, signal), TREND_EVERY, `trends ${filter}`);
  const trendOf = (name) => (trends.found !== null && trends.found.queues[name]) || NONE;
  const found = poll.found;
  const rows = found === null ? [] : sorted(found.queues.map((row) => ({ ...row, rates: rates(row.name) })), by, value);
  const pages = Math.max(1, Math.ceil(rows.length / ROWS));
  const at = Math.min(page, pages - 1);
  const shown = rows.slice(at * ROWS, (at + 1) * ROWS);
  const sum = (key) => rows.reduce((total, row) => total + row.counts[key], 0);
  return html`
    <div class="bar">
      <h1>Queues</h1>
      <label class="filter">Filter <kbd aria-hidden="true">/</kbd>
        <input type="search" data-filter placeholder="part of a name" maxlength="80" spellcheck=${false} autocomplete="off" value=${filter}
          onInput=${(event) => { seek({ contains: event.target.value }, true); setPage(0); }} /></label>
      <span class="quiet grow" role="status">${found !== null && html`${format.number(rows.length)} ${rows.length === 1 ? "queue" : "queues"} · ${format.short(sum("ready_count"))} ready · ${format.short(sum("leased_count"))} leased · ${format.short(sum("delayed_count"))} delayed`}</span>
      ${pages > 1 && html`<span class="pager">
        <button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>Before</button>
        <span>${at + 1} of ${pages}</span>
        <button type="button" disabled=${at === pages - 1} onClick=${() => setPage(at + 1)}>Next</button>
      </span>`}
      ${server.found !== null && server.found.permissions.some_queues.includes("manage") && html`<button type="button" onClick=${() => setCreating(true)}>Create a queue…</button>`}
    </div>
    <${Told} poll=${poll}>
      ${found !== null && found.next_page_token && html`<p class="hint">There are more: these are the first ${format.number(found.queues.length)} by name. A filter finds the others.</p>`}
      ${rows.length === 0 ? html`<${Empty}>${filter ? html`No queue that you may see has “${filter}” in its name.` : html`There is no queue yet, or none that you may see. <code>spoolrack queues create jobs</code> makes one.`}</${Empty}>`
        : html`<div class="wide"><table class="queues stack" data-keys onClick=${openRow}>
        <caption class="hidden">Queues, their messages by state, their oldest message and their rates. The headers sort.</caption>
        <colgroup><col /><col class="n" /><col class="n" /><col class="n" /><col class="age" /><col class="n" /><col class="n" /><col class="trend" /><col class="n" /><col class="dlq" /></colgroup>
        <thead class="sorts"><tr>
          <${Column} sort=${head("name", false)} label="Queue" />
          <${Column} sort=${head("ready_count")} label="Ready" right hint="waiting to be received" />
          <${Column} sort=${head("leased_count")} label="Leased" right hint="with a consumer now" />
          <${Column} sort=${head("delayed_count")} label="Delayed" right hint="hidden until they are due" />
          <${Column} sort=${head("oldest_age")} label="Oldest" right hint="age of the oldest that is ready or leased" />
          <${Column} sort=${head("entered")} label="In/s" right hint="what this server process brought in" />
          <${Column} sort=${head("left")} label="Out/s" right hint="what this server process deleted, let expire or moved away" />
          <th scope="col" class="right">Ready, last hour</th>
          <${Column} sort=${head("byte_count")} label="Size" right hint="bodies and attributes" />
          <th scope="col">Dead letters to</th>
        </tr></thead>
        <tbody>${shown.map((row) => html`<${Row} key=${row.name} row=${row} trend=${trendOf(row.name)} />`)}</tbody>
      </table></div>`}
    </${Told}>
    ${isCreating && html`<${SettingsForm} onClose=${() => setCreating(false)} onDone=${(name) => { location.hash = `#/queue/${encodeURIComponent(name)}`; }} />`}
  `;
}

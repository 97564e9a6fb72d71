// One queue: its counts and rates, its ages, its settings, its messages, and how to purge it.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change, get, queuePath } from "../api.js";
import { Chart } from "../chart.js";
import * as format from "../format.js";
import { Confirm, Told, tell } from "../parts.js";
import { usePoll } from "../poll.js";
import { note, rates, series } from "../rates.js";
import { Cells, bucketNames } from "./ages.js";
import { Messages } from "./messages.js";

const seconds = (value) => format.span(value * 1000);
const none = (write) => (value) => (value === 0 ? "no limit" : write(value));

// [setting, what it is called, how it is written]
const SETTINGS = [
  ["visibility_timeout", "Visibility timeout", seconds],
  ["delivery_delay", "Delivery delay", (value) => (value === 0 ? "none" : seconds(value))],
  ["retention", "Retention", none(seconds)],
  ["max_receives", "Receives before it is a dead letter", none(format.number)],
  ["max_messages", "Most messages", none(format.number)],
  ["max_bytes", "Most bytes", none(format.bytes)],
  ["max_message_size", "Largest message", format.bytes],
  ["lease_durability", "Lease durability", String],
  ["deduplication_window", "Deduplication window", seconds],
];

function Figure({ label, children, hint }) {
  return html`<div class="figure" title=${hint}><dt>${label}</dt><dd>${children}</dd></div>`;
}

export function QueuePage({ name }) {
  const [isPurging, setPurging] = useState(false);
  const [turn, setTurn] = useState(0);
  const poll = usePoll(async (signal) => {
    const found = await get(queuePath(name), {}, signal);
    note([found], found.at, found.by);
    return found;
  }, 2000, `queue ${name}`);
  const queue = poll.found;
  const now = rates(name);
  const may = (what) => queue !== null && queue.may.includes(what);
  async function purge() {
    const { deleted } = await change("queues/purge", { queue: name, confirm: name });
    tell(`Purged ${name}: ${format.number(deleted)} messages deleted.`);
    setTurn(turn + 1);
    poll.again();
  }
  return html`
    <div class="bar">
      <h1><a href="#/queues">Queues</a> <span aria-hidden="true">/</span> ${name}</h1>
      <span class="grow"></span>
      ${may("manage") && html`<button type="button" class="danger" onClick=${() => setPurging(true)}>Purge…</button>`}
    </div>
    <${Told} poll=${poll}>
      ${queue !== null && html`
        ${queue.blocking && html`<p class="warned" role="status"><strong>Blocked.</strong> Message <code>${queue.blocking_id}</code>: ${queue.blocking}.</p>`}
        ${queue.dead_letter_queue_is_missing && html`<p class="warned"><strong>No dead-letter queue.</strong> <code>${queue.dead_letter_queue}</code> is missing: until it is created, messages are delivered on.</p>`}
        <dl class="figures">
          <${Figure} label="Ready">${format.number(queue.ready)}</${Figure}>
          <${Figure} label="Leased">${format.number(queue.leased)}</${Figure}>
          <${Figure} label="Delayed">${format.number(queue.delayed)}</${Figure}>
          <${Figure} label="Oldest" hint="of those that are ready or leased">${format.span(queue.oldest_age)}</${Figure}>
          <${Figure} label="In/s" hint="what this server process brought in">${format.rate(now.entered)}</${Figure}>
          <${Figure} label="Out/s" hint="what this server process deleted, let expire or moved away">${format.rate(now.left)}</${Figure}>
          <${Figure} label="Size">${format.bytes(queue.bytes)}</${Figure}>
        </dl>
        <div class="columns">
          <section class="card" aria-labelledby="chart"><h2 id="chart">Since you opened this</h2>
            <${Chart} rows=${series(name)} label=${`In ${format.rate(now.entered)} a second, out ${format.rate(now.left)} a second, ${queue.ready} ready`} />
          </section>
          <section class="card" aria-labelledby="settings"><h2 id="settings">Settings</h2>
            <dl class="settings">
              ${SETTINGS.map(([key, label, write]) => html`<div key=${key}><dt>${label}</dt><dd>${write(queue.settings[key])}</dd></div>`)}
              <div><dt>Dead letters to</dt><dd>${queue.dead_letter_queue ? html`<a href="#/queue/${encodeURIComponent(queue.dead_letter_queue)}">${queue.dead_letter_queue}</a>` : "nowhere"}</dd></div>
              ${queue.is_dead_letter_queue && html`<div><dt>Dead letters of</dt><dd>${queue.sources.length === 0 ? "queues that are not yours to see" : queue.sources.map((source, at) => html`${at > 0 && ", "}<a href="#/queue/${encodeURIComponent(source)}">${source}</a>`)}</dd></div>`}
              <div><dt>Created</dt><dd>${format.moment(queue.create_time)}</dd></div>
            </dl>
          </section>
        </div>
        ${queue.ages && html`<section class="card" aria-labelledby="ages"><h2 id="ages">Ready by age${!queue.ages.is_exact && " (estimated)"}</h2>
          <div class="wide"><table class="ages">
            <thead><tr>${bucketNames(queue.bounds).map((bucket) => html`<th key=${bucket} scope="col" class="right">${bucket}</th>`)}</tr></thead>
            <tbody><tr><${Cells} counts=${queue.ages.counts} most=${Math.max(1, ...queue.ages.counts)} /></tr></tbody>
          </table></div>
        </section>`}
        <${Messages} key=${turn} queue=${name} mayReceive=${may("receive")} mayManage=${may("manage")} isGrave=${queue.is_dead_letter_queue} onChange=${poll.again} />`}
    </${Told}>
    ${isPurging && html`<${Confirm} title="Purge ${name}?" button="Purge" typed=${name} onClose=${() => setPurging(false)} act=${purge}>
      <p>All ${queue !== null && format.number(queue.ready + queue.leased + queue.delayed)} messages are deleted, also those that consumers have leased and those that are delayed. That can't be undone.</p>
    </${Confirm}>`}
  `;
}

// A queue's last hour as a chart, and what is missing of it.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { below, get } from "../api.js";
import { Chart, VIEWS, clock, firstSample, minutesOf } from "../chart.js";
import { Empty, Told } from "../parts.js";
import { usePoll } from "../poll.js";

const EVERY = 10_000;

function Missing({ series }) {
  return html`
    ${minutesOf(series) < 59 && html`<p class="hint">The first sample of this queue is of ${clock(((series.first + firstSample(series)) * series.every) / 1000)}: a start of the server begins anew.</p>`}
    ${series.partial_before !== null && html`<p class="hint">A server process was started at ${clock((series.partial_before * series.every) / 1000)}: rates before that lack what it did earlier.</p>`}
    ${series.silent.length > 0 && html`<p class="hint">Rates lack ${series.silent.length === 1 ? "the server process" : "the server processes"} ${series.silent.join(", ")}: no answer in time.</p>`}`;
}

export function LastHour({ queue }) {
  const [view, setView] = useState("rates");
  const poll = usePoll((signal) => get(below(queue, "history"), {}, signal), EVERY, `history ${queue}`);
  const series = poll.found;
  return html`<section class="card" aria-labelledby="chart">
    <div class="bar tight">
      <h2 id="chart">${series === null || !series.is_kept || minutesOf(series) >= 59 ? "The last hour" : `The last ${minutesOf(series)} min`}</h2>
      <span class="grow"></span>
      <div class="tabs" role="group" aria-label="Show">
        ${Object.entries(VIEWS).map(([key, [name]]) => html`<button key=${key} type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${name}</button>`)}
      </div>
    </div>
    <${Told} poll=${poll}>
      ${series !== null && (series.is_kept
        ? html`<${Chart} series=${series} view=${view} /><${Missing} series=${series} />`
        : html`<${Empty}>No samples of this queue yet. The server takes one every ten seconds, of the 1,000 busiest queues.</${Empty}>`)}
    </${Told}>
  </section>`;
}

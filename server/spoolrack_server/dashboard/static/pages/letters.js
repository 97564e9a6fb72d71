// Dead letters: which queues have them, where they came from, and how they go back.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { get, now } from "../api.js";
import * as format from "../format.js";
import { Empty, Told, openRow } from "../parts.js";
import { usePoll } from "../poll.js";
import { getQueues } from "./queues.js";
import { CancelRedrive, RedriveForm, Redrives } from "./redrive.js";

// The dead-letter queues, each with those that name it; also one that is missing.
function deadLetterQueues(rows) {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const found = new Map();
  for (const row of rows) {
    const name = row.settings.dead_letter_queue;
    if (!name) continue;
    if (!found.has(name)) found.set(name, { name, sources: [], row: byName.get(name) || null });
    found.get(name).sources.push(row.name);
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function Letters() {
  const [redriven, setRedriven] = useState(null);
  const [cancelled, setCancelled] = useState(null);
  const poll = usePoll(async (signal) => {
    const [queues, redrives] = await Promise.all([getQueues("", signal), get("redrives", { last: 200 }, signal)]);
    return { queues, redrives };
  }, 2000, "letters");
  const found = poll.found;
  const rows = found === null ? [] : deadLetterQueues(found.queues.queues);
  const latest = found === null ? [] : [...found.redrives.redrives].reverse();
  const running = new Set(latest.filter((redrive) => redrive.state === "running").map((redrive) => redrive.queue));
  return html`
    <div class="bar"><h1>Dead letters</h1><span class="quiet grow">Messages that were received too often, in the queues that others name for them.</span></div>
    <${Told} poll=${poll}>
      ${found !== null && (rows.length === 0 ? html`<${Empty}>No queue that you may see names a dead-letter queue.</${Empty}>` : html`
        <div class="wide"><table class="fixed stack" data-keys onClick=${openRow}>
          <caption class="hidden">Dead-letter queues</caption>
          <colgroup><col class="name" /><col class="n" /><col class="n" /><col class="age" /><col /><col class="act" /></colgroup>
          <thead><tr><th scope="col">Dead-letter queue</th><th scope="col" class="right">Ready</th><th scope="col" class="right">Leased</th><th scope="col" class="right">Oldest</th><th scope="col">Named by</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>${rows.map(({ name, sources, row }) => html`<tr key=${name}>
            <th scope="row"><a data-row href="#/queue/${encodeURIComponent(name)}">${name}</a></th>
            ${row === null ? html`<td colspan="3" class="wrap full"><span class="mark">missing, or not yours to see</span> While it is missing, messages are delivered on.</td>` : html`
              <td data-label="Ready" class=${row.counts.ready_count ? "right" : "right zero"}>${format.number(row.counts.ready_count)}</td>
              <td data-label="Leased" class=${row.counts.leased_count ? "right" : "right zero"}>${format.number(row.counts.leased_count)}</td>
              <td data-label="Oldest" class="right">${format.age(row.counts.oldest_age)}</td>`}
            <td data-label="Named by" class="wrap full">${sources.map((source, at) => html`${at > 0 && ", "}<a href="#/queue/${encodeURIComponent(source)}">${source}</a>`)}</td>
            <td class="right act">${row !== null && row.permissions.includes("manage") && (running.has(name) ? html`<span class="quiet">redrive is running</span>`
              : html`<button type="button" disabled=${row.counts.ready_count === 0} onClick=${() => setRedriven(row)}>Redrive…<span class="hidden"> ${name}</span></button>`)}</td>
          </tr>`)}</tbody>
        </table></div>`)}
      ${found !== null && html`<h2 class="apart">Redrives</h2>
        ${latest.length === 0 ? html`<${Empty}>There was none in the last 30 days.</${Empty}>` : html`<${Redrives} redrives=${latest} now=${now()} onCancel=${setCancelled} />`}`}
    </${Told}>
    ${redriven && html`<${RedriveForm} queue=${redriven.name} ready=${redriven.counts.ready_count} ids=${[]} onClose=${() => setRedriven(null)} onStarted=${poll.again} />`}
    ${cancelled && html`<${CancelRedrive} redrive=${cancelled} onClose=${() => setCancelled(null)} onDone=${poll.again} />`}
  `;
}

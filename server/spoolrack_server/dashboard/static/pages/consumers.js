// Consumers: which one holds messages, of which queue, since when.

import { html } from "../vendor/htm/standalone.module.js";
import { get, now, queuePath } from "../api.js";
import * as format from "../format.js";
import { Empty, Told, openRow } from "../parts.js";
import { usePoll } from "../poll.js";

const MOST = 20;

export function consumerOf(lease) {
  return lease.stream ? `stream ${lease.stream}` : lease.consumer;
}

// One row for each consumer of each queue: {consumer, queue, messages, since, ends, receives}.
export function held(queues) {
  const rows = new Map();
  for (const { name, oldest_leases: leases } of queues) {
    for (const lease of leases) {
      const consumer = consumerOf(lease);
      const key = `${consumer}\n${name}`;
      const row = rows.get(key) || { key, consumer, queue: name, messages: 0, since: null, ends: null, receives: 0 };
      const since = lease.receive_time || lease.first_receive_time;
      row.messages += lease.message_count;
      if (since && (row.since === null || since < row.since)) row.since = since;
      if (row.ends === null || lease.lease_expire_time < row.ends) row.ends = lease.lease_expire_time;
      row.receives = Math.max(row.receives, lease.receive_count);
      rows.set(key, row);
    }
  }
  return [...rows.values()].sort((a, b) => (a.consumer === b.consumer ? (a.queue < b.queue ? -1 : 1) : a.consumer < b.consumer ? -1 : 1));
}

async function look(signal) {
  const { queues } = await get("queues", { page_size: 1000, fields: "name,counts" }, signal);
  const leased = queues.filter((queue) => queue.counts.leased_count > 0).sort((a, b) => b.counts.leased_count - a.counts.leased_count);
  const asked = await Promise.allSettled(leased.slice(0, MOST).map((queue) => get(queuePath(queue.name), {}, signal)));
  // A queue that has gone meanwhile is left out; every other failure is the page's.
  const failed = asked.find((each) => each.status === "rejected" && each.reason.status !== 404);
  if (failed) throw failed.reason;
  const found = asked.filter((each) => each.status === "fulfilled").map((each) => each.value);
  return { rows: held(found), count: leased.length, leased: leased.reduce((sum, queue) => sum + queue.counts.leased_count, 0) };
}

export function Consumers() {
  const poll = usePoll(look, 5000, "consumers");
  const found = poll.found;
  return html`
    <div class="bar"><h1>Consumers</h1><span class="quiet grow">Consumers that hold messages, by the five oldest leases of each queue.</span></div>
    <${Told} poll=${poll}>
      ${found !== null && found.count > MOST && html`<p class="hint">The ${MOST} queues with the most leased messages, of ${format.number(found.count)}.</p>`}
      ${found !== null && (found.rows.length === 0 ? html`<${Empty}>No consumer holds a message.</${Empty}>` : html`
        <div class="wide"><table class="fixed consumers stack" data-keys onClick=${openRow}>
          <caption class="hidden">Consumers and the messages that they hold</caption>
          <colgroup><col /><col class="name" /><col class="n" /><col class="age" /><col class="age" /><col class="n" /></colgroup>
          <thead><tr><th scope="col">Consumer</th><th scope="col">Queue</th><th scope="col" class="right">Messages</th><th scope="col" class="right">Held for</th><th scope="col" class="right">Lease ends in</th><th scope="col" class="right">Receives</th></tr></thead>
          <tbody>${found.rows.map((row) => html`<tr key=${row.key}>
            <th scope="row" class="wrap">${row.consumer}</th>
            <td data-label="Queue" class="cut"><a data-row href="#/queue/${encodeURIComponent(row.queue)}?state=leased">${row.queue}</a></td>
            <td data-label="Messages" class="right">${format.number(row.messages)}</td>
            <td data-label="Held for" class="right" title=${format.moment(row.since)}>${row.since === null ? "–" : format.span(now() - Date.parse(row.since))}</td>
            <td data-label="Lease ends in" class="right" title=${format.moment(row.ends)}>${format.span(Math.max(0, Date.parse(row.ends) - now()))}</td>
            <td data-label="Receives" class="right">${format.number(row.receives)}</td>
          </tr>`)}</tbody>
        </table></div>
        <p class="hint">${format.number(found.leased)} leased ${found.leased === 1 ? "message" : "messages"} in ${format.number(found.count)} ${found.count === 1 ? "queue" : "queues"}. Receives: how often the message with the most was received.</p>`)}
    </${Told}>
  `;
}

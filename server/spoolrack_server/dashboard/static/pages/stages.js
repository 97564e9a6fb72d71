// What was sent and not published: nobody sees it yet.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change, get, now } from "../api.js";
import * as format from "../format.js";
import { Confirm, Empty, Told, tell } from "../parts.js";
import { usePoll } from "../poll.js";

const messages = (stage) => Object.values(stage.message_counts).reduce((sum, count) => sum + count, 0);

export function Stages() {
  const [doomed, setDoomed] = useState(null);
  const poll = usePoll((signal) => get("stages", { page_size: 200 }, signal), 4000, "stages");
  const found = poll.found;
  async function abort() {
    const { message_count: dropped } = await change("DELETE", `stages/${encodeURIComponent(doomed.name)}`);
    tell(`Aborted ${doomed.name}: ${format.number(dropped)} messages dropped.`);
    poll.again();
  }
  return html`
    <div class="bar"><h1>Staged</h1><span class="quiet grow">Batches that are stored, and that nobody sees before they are published.</span></div>
    <${Told} poll=${poll}>
      ${found !== null && found.next_page_token && html`<p class="hint">There are more: these are the first ${found.stages.length} by name.</p>`}
      ${found !== null && (found.stages.length === 0 ? html`<${Empty}>Nothing is staged.</${Empty}>` : html`
        <div class="wide"><table class="fixed stack" data-keys>
          <caption class="hidden">Staged batches</caption>
          <colgroup><col class="name" /><col /><col class="n" /><col class="n" /><col class="age" /><col class="act" /></colgroup>
          <thead><tr><th scope="col">Stage</th><th scope="col">Queues</th><th scope="col" class="right">Messages</th><th scope="col" class="right">Chunks</th><th scope="col">Expires</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>${found.stages.map((stage) => html`<tr key=${stage.name}>
            <th scope="row"><code>${stage.name}</code></th>
            <td class="wrap full" data-label="Queues">${Object.entries(stage.message_counts).map(([queue, count], at) => html`${at > 0 && ", "}<a href="#/queue/${encodeURIComponent(queue)}">${queue}</a> ${format.number(count)}`)}</td>
            <td class="right" data-label="Messages">${format.number(messages(stage))}</td>
            <td class="right" data-label="Chunks">${format.number(stage.chunk_count)}</td>
            <td data-label="Expires">in ${format.span(Math.max(0, Date.parse(stage.expire_time) - now()))}</td>
            <td class="right act">${stage.permissions.includes("send") && html`<button type="button" data-row onClick=${() => setDoomed(stage)}>Abort<span class="hidden"> ${stage.name}</span></button>`}</td>
          </tr>`)}</tbody>
        </table></div>`)}
    </${Told}>
    ${doomed && html`<${Confirm} title="Abort ${doomed.name}?" button="Abort" onClose=${() => setDoomed(null)} act=${abort}>
      <p>Its ${format.number(messages(doomed))} messages are dropped and never delivered. Whoever staged them has to stage them again.</p>
    </${Confirm}>`}
  `;
}

// Sets of leases that readers hold under a name.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change, get, now } from "../api.js";
import * as format from "../format.js";
import { Confirm, Empty, Told, tell } from "../parts.js";
import { usePoll } from "../poll.js";

export function Reservations() {
  const [doomed, setDoomed] = useState(null);
  const poll = usePoll((signal) => get("reservations", { page_size: 200 }, signal), 4000, "reservations");
  const found = poll.found;
  async function release() {
    await change("DELETE", `reservations/${encodeURIComponent(doomed.stream)}/${doomed.sequence_number}`);
    tell(`Released ${doomed.stream} ${doomed.sequence_number}: its messages are ready again.`);
    poll.again();
  }
  return html`
    <div class="bar"><h1>Reservations</h1><span class="quiet grow">Sets of messages that a stream has reserved: each is read, and read again, until it is committed.</span></div>
    <${Told} poll=${poll}>
      ${found !== null && found.next_page_token && html`<p class="hint">There are more: these are the first ${found.reservations.length} by name.</p>`}
      ${found !== null && (found.reservations.length === 0 ? html`<${Empty}>Nothing is reserved.</${Empty}>` : html`
        <div class="wide"><table class="fixed stack" data-keys>
          <caption class="hidden">Reservations</caption>
          <colgroup><col class="name" /><col class="trend" /><col /><col class="n" /><col class="n" /><col class="n" /><col class="age" /><col class="act" /></colgroup>
          <thead><tr><th scope="col">Stream</th><th scope="col" class="right">Number</th><th scope="col">Queue</th><th scope="col" class="right">Messages</th><th scope="col" class="right">Size</th><th scope="col" class="right">Reads</th><th scope="col">Held</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>${found.reservations.map((set) => html`<tr key=${`${set.stream} ${set.sequence_number}`}>
            <th scope="row"><code>${set.stream}</code></th>
            <td class="right" data-label="Number">${set.sequence_number}</td>
            <td data-label="Queue"><a href="#/queue/${encodeURIComponent(set.queue)}">${set.queue}</a></td>
            <td class="right" data-label="Messages">${format.number(set.message_count)}</td>
            <td class="right" data-label="Size">${format.bytes(set.byte_count)}</td>
            <td class="right" data-label="Reads">${format.number(set.read_count)}</td>
            <td data-label="Held">${set.state === "lost" ? html`<span class="mark">lost</span>` : html`for ${format.span(Math.max(0, Date.parse(set.expire_time) - now()))}`}</td>
            <td class="right act">${set.permissions.includes("receive") && set.state !== "lost" && html`<button type="button" data-row onClick=${() => setDoomed(set)}>Release<span class="hidden"> ${set.stream} ${set.sequence_number}</span></button>`}</td>
          </tr>`)}</tbody>
        </table></div>`)}
    </${Told}>
    ${doomed && html`<${Confirm} title="Release ${doomed.stream} ${doomed.sequence_number}?" button="Release" onClose=${() => setDoomed(null)} act=${release}>
      <p>Its ${format.number(doomed.message_count)} messages are anybody's at once. Whoever reads the stream finds the set lost, and what he has done with it may be done again.</p>
    </${Confirm}>`}
  `;
}

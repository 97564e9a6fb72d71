// The shards of one address: a proxy takes a request to the shard that its header names. Without such a proxy the server
// refuses the header of another shard, and the page has its own shard only.

import { html } from "../vendor/htm/standalone.module.js";
import { get, ofShard } from "../api.js";
import * as format from "../format.js";
import { Told } from "../parts.js";
import { usePoll } from "../poll.js";

const EVERY = 5000;
const PATIENCE = 5000;
const AT_A_TIME = 6;
const MOST = 1_000;
// Asked once: what is at this address doesn't change while the page is open.
let isAlone = false;

async function lookAt(shard, isOver) {
  const signal = AbortSignal.any([isOver, AbortSignal.timeout(PATIENCE)]);
  try {
    const { status, why } = await get("server", {}, signal, ofShard(shard));
    const { queues, next_page_token: more } = await get("queues", { page_size: MOST, fields: "name,counts" }, signal, ofShard(shard));
    return { shard, status, why, queues, more };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { shard, error };
  }
}

async function lookAtAll(own, signal) {
  if (isAlone) return [];
  const [mine, count] = own.split("/").map(Number);
  const rows = Array(count).fill(null);
  const look = async (number) => { rows[number] ??= await lookAt(`${number}/${count}`, signal); };
  const other = mine === 0 ? count - 1 : 0;
  await look(other);
  isAlone = rows[other].error?.reason === "WRONG_SHARD";
  if (isAlone) return [];
  const numbers = rows.keys();
  const work = async () => { for (const number of numbers) await look(number); };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return rows;
}

function whyNot(error) {
  if (error.status === 401 || error.status === 403) return ["Not permitted", error.message];
  return ["No answer", error.reason === "UNKNOWN" ? "The proxy has no answer of this shard." : error.message];
}

function Row({ row: { shard, status, why, queues, more, error }, own }) {
  const sum = (key) => `${format.short(queues.reduce((total, queue) => total + queue.counts[key], 0))}${more ? "+" : ""}`;
  const ages = error ? [] : queues.map((queue) => queue.counts.oldest_age).filter((age) => age !== null);
  return html`<tr class=${shard === own ? "open" : ""}>
    <th scope="row"><a href="dashboard?shard=${shard}#/queues" aria-current=${shard === own ? "true" : undefined}>Shard ${shard.split("/")[0]}</a></th>
    ${error ? html`<td data-label="Health"><span class="health bad">${whyNot(error)[0]}</span></td><td colspan="5" class="wrap quiet">${whyNot(error)[1]}</td>` : html`
      <td data-label="Health"><span class="health ${status === "SERVING" ? "good" : "bad"}" title=${why}>${status === "SERVING" ? "Serving" : "Not serving"}</span></td>
      <td data-label="Queues" class="right">${format.number(queues.length)}${more ? "+" : ""}</td>
      <td data-label="Ready" class="right">${sum("ready_count")}</td>
      <td data-label="Leased" class="right">${sum("leased_count")}</td>
      <td data-label="Delayed" class="right">${sum("delayed_count")}</td>
      <td data-label="Oldest" class="right">${format.age(ages.length ? Math.max(...ages) : null)}</td>`}
  </tr>`;
}

// `own` is the shard that the page shows, such as 2/8.
export function Shards({ own }) {
  const poll = usePoll((signal) => lookAtAll(own, signal), EVERY, `shards ${own}`);
  return html`<section class="card" aria-labelledby="shards">
    <h2 id="shards">Shards</h2>
    ${isAlone ? html`<p class="quiet">This address leads to shard ${own} only. Behind a proxy that routes by the header <code>x-spoolrack-shard</code>, all shards are listed here.</p>` : html`<${Told} poll=${poll}>
      ${poll.found !== null && html`<div class="wide"><table class="stack">
        <caption class="hidden">Shards, with the messages of all queues that you may see</caption>
        <thead><tr><th scope="col">Shard</th><th scope="col">Health</th><th scope="col" class="right">Queues</th><th scope="col" class="right">Ready</th><th scope="col" class="right">Leased</th><th scope="col" class="right">Delayed</th><th scope="col" class="right">Oldest</th></tr></thead>
        <tbody>${poll.found.map((row) => html`<${Row} key=${row.shard} row=${row} own=${own} />`)}</tbody>
      </table></div>`}
    </${Told}>`}
  </section>`;
}

// The server itself: whether it serves, its version, its machine, which processes have the root open, and
// the identity of this page.

import { html } from "../vendor/htm/standalone.module.js";
import { get, hasToken, setToken, shard } from "../api.js";
import * as format from "../format.js";
import { Told } from "../parts.js";
import { usePoll } from "../poll.js";
import { Shards } from "./shards.js";

const percent = (part, all) => (all > 0 ? `${Math.round((part / all) * 100)} %` : "–");

function Meter({ label, used, all }) {
  return html`<meter min="0" max=${all} high=${0.8 * all} value=${used} aria-label=${label}></meter>`;
}

function Disk({ disk }) {
  if (disk === null) return html`<dt>Disk</dt><dd>The file system does not say.</dd>`;
  const { free, total, files } = disk;
  return html`
    <dt>Disk</dt><dd>${format.bytes(free)} free of ${format.bytes(total)} (${percent(free, total)}) <${Meter} label="Disk in use" used=${total - free} all=${total} />${disk.refuses_sends && " Sends are refused until more is free."}</dd>
    <dt>Files</dt><dd>${files === null ? "no limit" : html`${format.number(files.free)} more of ${format.number(files.total)} (${percent(files.free, files.total)}) <${Meter} label="Inodes in use" used=${files.total - files.free} all=${files.total} />`}</dd>`;
}

function Processes({ found }) {
  const { processes, memory_limit: limit, machine_memory: machine } = found;
  const resident = processes.reduce((sum, process) => sum + (process.resident || 0), 0);
  return html`
    <dl class="facts">
      <dt>Memory</dt><dd>${format.bytes(resident)} in use${limit === null ? `, no limit; the machine has ${format.bytes(machine)}` : html` of ${format.bytes(limit)}, the limit of the control group <${Meter} label="Memory in use" used=${resident} all=${limit} />`}</dd>
    </dl>
    <table class="stack">
      <caption class="hidden">Processes of this server</caption>
      <thead><tr><th scope="col">Process</th><th scope="col">Pid</th><th scope="col" class="right">Memory</th><th scope="col" class="right">Uptime</th></tr></thead>
      <tbody>${processes.map((process) => html`<tr key=${process.number}>
        <th scope="row">Process ${process.number}</th>
        ${process.pid === undefined ? html`<td colspan="3"><span class="mark">no answer</span></td>` : html`
          <td data-label="Pid">${process.pid}</td>
          <td class="right" data-label="Memory">${process.resident === null ? "–" : format.bytes(process.resident)}</td>
          <td class="right" data-label="Uptime">${format.span(process.uptime)}</td>`}
      </tr>`)}</tbody>
    </table>`;
}

function Resources() {
  const poll = usePoll((signal) => get("server/resources", {}, signal), 5000, "resources");
  const found = poll.found;
  return html`<${Told} poll=${poll}>
    ${found !== null && html`
      <section class="card" aria-labelledby="disk">
        <h2 id="disk">Folder and disk</h2>
        <dl class="facts">
          <dt>Folder</dt><dd><code>${found.root}</code></dd>
          <${Disk} disk=${found.disk} />
        </dl>
      </section>
      <section class="card" aria-labelledby="processes">
        <h2 id="processes">Memory and processes</h2>
        <${Processes} found=${found} />
      </section>
      <${Owners} found=${found} />`}
  </${Told}>`;
}

function Owners({ found }) {
  return html`<section class="card" aria-labelledby="owners">
    <h2 id="owners">Who has the folders open</h2>
    <table class="stack">
      <thead><tr><th scope="col">Owner</th><th scope="col">Process</th><th scope="col"><span class="hidden">Which</span></th></tr></thead>
      <tbody>${found.owners.map((owner) => html`<tr key=${owner.name}><th scope="row"><code>${owner.name}</code></th><td>${owner.about}</td><td>${owner.is_me ? "answers you" : ""}</td></tr>`)}</tbody>
    </table>
    <p class="quiet">${found.owners.length === 1 ? "This process alone: no peers." : `${found.owners.length} processes share the folders. One that was killed may stand here until another notices.`}</p>
    <dl class="facts">
      <dt>Quarantined</dt><dd>${format.number(found.quarantined)}</dd><dd class="quiet">files that were not what their names say, since this process began</dd>
    </dl>
  </section>`;
}

export function Server({ server }) {
  const found = server.found;
  // Also while the shard that the address names doesn't answer.
  const own = found === null ? shard : found.shard;
  function forget() {
    setToken(null);
    dispatchEvent(new Event("spoolrack-token"));
  }
  return html`
    <div class="bar"><h1>Server</h1></div>
    ${own && html`<${Shards} own=${own} />`}
    <${Told} poll=${server}>
      ${found !== null && html`
        <section class="card" aria-labelledby="health">
          <h2 id="health">Health</h2>
          ${found.status === "SERVING" ? html`<p><span class="health good">Serving</span> Sends and receives are taken.</p>`
            : html`<p><span class="health bad">Not serving</span> ${found.why}</p>`}
          ${found.doubt && html`<p class="warned" role="status"><strong>The disk may lose acknowledged messages.</strong> The folder is on ${found.doubt}.</p>`}
          <dl class="facts">
            ${found.shard && html`<dt>Shard</dt><dd>number ${found.shard.split("/")[0]} of ${found.shard.split("/")[1]}, counted from 0: it has the queues of this number alone</dd>`}
            <dt>Version</dt><dd>${found.version}</dd>
            <dt>Uptime</dt><dd>${format.age(found.uptime)}</dd>
            <dt>Clock</dt><dd>${format.moment(found.time)}</dd>
          </dl>
        </section>
        ${found.permissions.all_queues.includes("monitor") ? html`<${Resources} />`
          : html`<p class="quiet">To see its disk, memory and processes takes the permission monitor on all queues.</p>`}
        <section class="card" aria-labelledby="identity">
          <h2 id="identity">Who you are</h2>
          <p>${found.identity ? html`<code>${found.identity}</code>` : "Nobody asked: the server takes requests without a name."}</p>
          ${hasToken() && html`<p><button type="button" onClick=${forget}>Forget the token of this tab</button></p>`}
        </section>`}
    </${Told}>
  `;
}

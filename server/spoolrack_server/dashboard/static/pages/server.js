// The server itself: whether it serves, who has the root open, who is asking.

import { html } from "../vendor/htm/standalone.module.js";
import { hasToken, setToken } from "../api.js";
import * as format from "../format.js";
import { Told } from "../parts.js";

export function Server({ server }) {
  const found = server.found;
  function forget() {
    setToken(null);
    dispatchEvent(new Event("spoolrack-token"));
  }
  return html`
    <div class="bar"><h1>Server</h1></div>
    <${Told} poll=${server}>
      ${found !== null && html`
        <section class="card" aria-labelledby="health">
          <h2 id="health">Health</h2>
          ${found.status === "SERVING" ? html`<p><span class="health good">Serving</span> Sends and receives are taken, and what is acknowledged is on stable media.</p>`
            : html`<p><span class="health bad">Not serving</span> ${found.why}</p>`}
          <p class="quiet">The server's clock says ${format.moment(found.now)}.</p>
        </section>
        <section class="card" aria-labelledby="owners">
          <h2 id="owners">Who has the folders open</h2>
          ${found.sees_all ? html`<table>
              <thead><tr><th scope="col">Owner</th><th scope="col">Process</th><th scope="col"><span class="hidden">Which</span></th></tr></thead>
              <tbody>${found.owners.map((owner) => html`<tr key=${owner.name}><th scope="row"><code>${owner.name}</code></th><td>${owner.about}</td><td>${owner.is_me ? "answers you" : ""}</td></tr>`)}</tbody>
            </table>
            <p class="quiet">${found.owners.length === 1 ? "This process alone: no peers." : `${found.owners.length} processes share the folders. One that was killed may stand here until another notices.`}</p>
            <dl class="facts">
              <dt>Lost races</dt><dd>${format.number(found.lost_races)}</dd><dd class="quiet">claims that a peer was faster with, since this process began</dd>
              <dt>Quarantined</dt><dd>${format.number(found.quarantined)}</dd><dd class="quiet">files that were not what their names say, since this process began</dd>
            </dl>`
          : html`<p class="quiet">To see this takes the permission monitor on all queues.</p>`}
        </section>
        <section class="card" aria-labelledby="identity">
          <h2 id="identity">Who you are</h2>
          <p>${found.identity ? html`<code>${found.identity}</code>` : "Nobody asked: the server takes requests without a name."}</p>
          ${hasToken() && html`<p><button type="button" onClick=${forget}>Forget the token of this tab</button></p>`}
        </section>`}
    </${Told}>
  `;
}

// The frame around the pages: which one is shown, who asks, whether the server serves, and the keys.

import { html, render, useEffect, useState } from "./vendor/htm/standalone.module.js";
import { getServer, hasToken, setToken, shard, whenStranger } from "./api.js";
import { Dialog, Failed, Notices, moveIn } from "./parts.js";
import { usePoll } from "./poll.js";
import { place, usePlace } from "./address.js";
import { Ages } from "./pages/ages.js";
import { Consumers } from "./pages/consumers.js";
import { Letters } from "./pages/letters.js";
import { QueuePage } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Reservations } from "./pages/reservations.js";
import { Server } from "./pages/server.js";
import { Stages } from "./pages/stages.js";

const PAGES = [
  ["queues", "Queues", Queues],
  ["ages", "Ages", Ages],
  ["dead-letters", "Dead letters", Letters],
  ["staged", "Staged", Stages],
  ["reservations", "Reservations", Reservations],
  ["consumers", "Consumers", Consumers],
  ["server", "Server", Server],
];

const KEYS = "spoolrack.keys";
let keysAreOn = true;
try { keysAreOn = localStorage.getItem(KEYS) !== "off"; } catch { /* on */ }

function TokenDialog({ refusal, onClose, onGiven }) {
  const [text, setText] = useState("");
  function given(event) {
    event.preventDefault();
    const token = text.trim();
    if (!token) return;
    setToken(token);
    onGiven();
    dispatchEvent(new Event("spoolrack-token"));
  }
  return html`<${Dialog} title="Who are you?" onClose=${onClose}>
    <form onSubmit=${given}>
      <p>${hasToken() ? "The server doesn't take the token of this tab any more." : "This server wants a token."}${" "}
        Whoever runs it makes one with <code>spoolrack tokens new</code>.</p>
      <p class="quiet">${refusal.message}</p>
      <label class="stacked">Token
        <input type="password" autocomplete="off" spellcheck=${false} autofocus value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <p class="quiet">It is kept in this tab until it is closed, and sent to this server alone.</p>
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${!text.trim()}>Use it</button>
      </div>
    </form>
  </${Dialog}>`;
}

function HelpDialog({ onClose }) {
  const [areOn, setOn] = useState(keysAreOn);
  function turned(event) {
    keysAreOn = event.target.checked;
    setOn(keysAreOn);
    try { localStorage.setItem(KEYS, keysAreOn ? "on" : "off"); } catch { /* for this page only */ }
  }
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">
      <dt><kbd>/</kbd></dt><dd>filter</dd>
      <dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next row, row before</dd>
      <dt><kbd>Enter</kbd></dt><dd>open the row</dd>
      <dt><kbd>1</kbd> … <kbd>${PAGES.length}</kbd></dt><dd>${PAGES.map(([, title]) => title).join(", ")}</dd>
      <dt><kbd>u</kbd></dt><dd>from a queue up to the list</dd>
      <dt><kbd>t</kbd></dt><dd>light or dark</dd>
      <dt><kbd>Esc</kbd></dt><dd>leave the filter, close a dialog</dd>
      <dt><kbd>?</kbd></dt><dd>this</dd>
    </dl>
    <label><input type="checkbox" checked=${areOn} onChange=${turned} /> These keys are on</label>
    <div class="buttons"><button type="button" class="main" onClick=${onClose}>Close</button></div>
  </${Dialog}>`;
}

function useKeys(showHelp) {
  useEffect(() => {
    function pressed(event) {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open]")) return;
      const target = event.target;
      const isWriting = target.matches("input:not([type=checkbox]), select, textarea");
      if (isWriting) {
        if (event.key === "Escape") target.blur();
        return;
      }
      if (event.key === "?") { showHelp(); event.preventDefault(); return; }
      if (!keysAreOn) return;
      const table = document.querySelector("[data-keys]");
      const page = PAGES[Number(event.key) - 1];
      if (event.key === "/") {
        const filter = document.querySelector("[data-filter]");
        if (filter) { filter.focus(); filter.select(); }
      } else if (event.key === "j") moveIn(table, 1);
      else if (event.key === "k") moveIn(table, -1);
      else if (event.key === "t") globalThis.spoolrackTheme.turn();
      else if (event.key === "u" && place().page === "queue") location.hash = "#/queues";
      else if (page) location.hash = `#/${page[0]}`;
      else return;
      event.preventDefault();
    }
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Health({ poll, askMe }) {
  const { found, error } = poll;
  if (error !== null && error.status === 401) return html`<button type="button" onClick=${askMe}>Give a token</button>`;
  if (error !== null) return html`<a class="health bad" href="#/server">No answer</a>`;
  if (found === null) return html`<span class="health">…</span>`;
  if (found.status !== "SERVING") return html`<a class="health bad" href="#/server">Not serving</a>`;
  return html`<a class="health good" href="#/server">Serving</a>`;
}

function Theme() {
  const [, setCount] = useState(0);
  useEffect(() => {
    const turned = () => setCount((count) => count + 1);
    addEventListener("spoolrack-theme", turned);
    return () => removeEventListener("spoolrack-theme", turned);
  }, []);
  const isDark = globalThis.spoolrackTheme.current === "dark";
  return html`<button type="button" class="icon" onClick=${() => globalThis.spoolrackTheme.turn()}>${isDark ? "Light" : "Dark"}</button>`;
}

function App() {
  const at = usePlace();
  const [refusal, setRefusal] = useState(null);
  const [isDeclined, setDeclined] = useState(false);
  const [isHelped, setHelped] = useState(false);
  useKeys(() => setHelped(true));
  // One question at a time, also where five polls are refused at once; and none again after a "no".
  useEffect(() => whenStranger((told) => setRefusal((before) => before || told)), []);
  useEffect(() => {
    const given = () => { setDeclined(false); setRefusal(null); };
    addEventListener("spoolrack-token", given);
    return () => removeEventListener("spoolrack-token", given);
  }, []);
  const server = usePoll(getServer, 5000, "server");
  const known = PAGES.find(([page]) => page === at.page);
  const title = at.page === "queue" ? at.name : known ? known[1] : "Nothing here";
  useEffect(() => { document.title = `${title} · Spoolrack`; }, [title]);
  const own = server.found === null ? shard : server.found.shard;
  const isOut = server.found !== null && server.found.status !== "SERVING";
  return html`
    <header>
      <a class="brand" href="#/queues"><img src="dashboard/icon.svg" alt="" width="16" height="16" /> Spoolrack</a>
      ${own && html`<a href="#/server" title=${`the queues of shard ${own} are shown`}>Shard ${own.split("/")[0]}</a>`}
      <nav aria-label="Pages">
        ${PAGES.map(([page, name]) => html`<a key=${page} href="#/${page}" aria-current=${page === at.page || (page === "queues" && at.page === "queue") ? "page" : undefined}>${name}</a>`)}
      </nav>
      <div class="aside">
        <${Health} poll=${server} askMe=${() => { setDeclined(false); }} />
        <${Theme} />
        <button type="button" class="icon" aria-label="Keys" onClick=${() => setHelped(true)}>?</button>
      </div>
    </header>
    ${isOut && html`<div class="banner" role="alert"><strong>The server doesn't serve.</strong> ${server.found.why}</div>`}
    <main id="main" tabindex="-1">
      ${at.page === "queue" ? html`<${QueuePage} key=${at.name} name=${at.name} query=${at.query} />`
        : known ? html`<${known[2]} server=${server} query=${at.query} />`
        : html`<${Failed} error=${{ status: 404, message: "There is no such page: the links above lead to those that there are." }} />`}
    </main>
    <${Notices} />
    ${refusal && !isDeclined && html`<${TokenDialog} refusal=${refusal} onClose=${() => setDeclined(true)} onGiven=${() => setRefusal(null)} />`}
    ${isHelped && html`<${HelpDialog} onClose=${() => setHelped(false)} />`}
  `;
}

render(html`<${App} />`, document.getElementById("app"));

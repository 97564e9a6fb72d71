// One message: where it is, what it carries, how it became a dead letter. All of it is text, whatever it says.

import { html, useEffect, useRef, useState } from "../vendor/htm/standalone.module.js";
import { below, get, now } from "../api.js";
import * as format from "../format.js";
import { Told } from "../parts.js";
import { usePoll } from "../poll.js";

const ONCE = 3_600_000;

function Body({ message }) {
  const raw = format.bodyOf(message);
  const isCut = raw.length < message.body_size;
  const text = format.textOf(raw, isCut);
  const json = text === null || isCut ? null : format.prettyJson(text);
  const first = text === null || format.looksBinary(text) ? "hex" : json !== null ? "json" : "text";
  const [form, setForm] = useState(first);
  const forms = [["text", "Text", text !== null], ["json", "JSON", json !== null], ["hex", "Hex", true]];
  const shown = form === "hex" ? format.hex(raw) : form === "json" ? json : text;
  return html`
    <div class="bar tight">
      <h3>Body</h3>
      <div class="tabs" role="group" aria-label="Show the body as">
        ${forms.map(([key, name, isThere]) => html`<button key=${key} type="button" aria-pressed=${form === key} disabled=${!isThere} onClick=${() => setForm(key)}>${name}</button>`)}
      </div>
      <span class="quiet">${format.bytes(message.body_size)}${isCut && html`; the first ${format.bytes(raw.length)} are shown`}${text === null && "; it is no text in UTF-8"}</span>
    </div>
    ${message.body_size === 0 ? html`<p class="empty">The body is empty.</p>`
      : html`<pre class="body" tabindex="0" aria-label="Body">${form === "hex" ? shown : format.visible(shown)}</pre>`}
  `;
}

// The attributes by name: {name, text} or, in base64, {name, binary}.
export function attributesOf(message) {
  const texts = Object.entries(message.attributes).map(([name, text]) => ({ name, text }));
  const binaries = Object.entries(message.binary_attributes).map(([name, binary]) => ({ name, binary }));
  return [...texts, ...binaries].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function Attributes({ attributes }) {
  if (attributes.length === 0) return html`<p class="quiet">No attributes.</p>`;
  return html`<table class="attributes"><caption class="hidden">Attributes</caption>
    <thead><tr><th scope="col">Attribute</th><th scope="col">Value</th></tr></thead>
    <tbody>${attributes.map(({ name, text, binary }) => html`<tr key=${name}>
      <th scope="row"><code>${format.visible(name)}</code></th>
      <td class="wrap">${binary === undefined ? format.visible(text) : html`<span class="quiet">binary</span> <code>${format.hex(format.decoded(binary)).slice(0, 2000)}</code>`}</td>
    </tr>`)}</tbody></table>`;
}

// What a handler raised comes first: it differs from one dead letter to the next.
export function reasonOf(record) {
  const reason = record.reason === "max_receives" ? "received too often" : record.reason;
  return record.explanation ? `${format.visible(record.explanation)} (${reason})` : reason;
}

// How often a message was received: one that became a dead letter, before and since.
function receivesOf({ receive_count: count, dead_letter_records: records }) {
  const last = records[records.length - 1];
  return last === undefined ? format.number(count)
    : `${format.number(last.receive_count)} before it became a dead letter, ${format.number(count)} since`;
}

function DeadLetterRecords({ records }) {
  return html`<table class="attributes stack"><caption>How it became a dead letter</caption>
    <thead><tr><th scope="col">When</th><th scope="col">From</th><th scope="col">Why</th><th scope="col" class="right">Receives before</th><th scope="col">First received</th></tr></thead>
    <tbody>${records.map((record, at) => html`<tr key=${at}>
      <td data-label="When">${format.moment(record.dead_letter_time)}</td>
      <td data-label="From"><a href="#/queue/${encodeURIComponent(record.source_queue)}">${record.source_queue}</a></td>
      <td data-label="Why">${reasonOf(record)}</td>
      <td class="right" data-label="Receives before">${format.number(record.receive_count)}</td>
      <td data-label="First received">${format.moment(record.first_receive_time)}</td>
    </tr>`)}</tbody></table>`;
}

export function MessagePanel({ queue, id, onClose, onDelete, onRedrive }) {
  const poll = usePoll((signal) => get(below(queue, `messages/${id}`), {}, signal), ONCE, `message ${queue} ${id}`);
  const message = poll.found;
  const title = useRef(null);
  useEffect(() => { if (title.current) title.current.focus(); }, [id]);
  return html`<section class="card panel" aria-labelledby="message">
    <div class="bar tight">
      <h2 id="message" tabindex="-1" ref=${title}>Message <code>${id}</code></h2>
      <span class="grow"></span>
      ${onRedrive && message && message.dead_letter_records.length > 0 && html`<button type="button" onClick=${onRedrive}>Redrive…<span class="hidden"> this message</span></button>`}
      ${onDelete && html`<button type="button" class="danger" onClick=${onDelete}>Delete…</button>`}
      <button type="button" onClick=${onClose}>Close</button>
    </div>
    <${Told} poll=${poll}>
      ${message && html`
        <dl class="facts">
          <dt>State</dt><dd><span class="state ${message.state}">${message.state}</span></dd>
          <dt>Sent</dt><dd>${format.moment(message.send_time)}, ${format.span(now() - Date.parse(message.send_time))} ago</dd>
          <dt>Receives</dt><dd>${receivesOf(message)}${message.first_receive_time && html`, first ${format.moment(message.first_receive_time)}`}</dd>
          ${message.group && html`<dt>Group</dt><dd>${format.visible(message.group)}</dd>`}
          ${message.priority > 0 && html`<dt>Priority</dt><dd>${format.number(message.priority)}</dd>`}
          ${message.lease_expire_time && html`<dt>Lease ends</dt><dd>${format.moment(message.lease_expire_time)}</dd>`}
          ${message.deliver_time && html`<dt>Due</dt><dd>${format.moment(message.deliver_time)}</dd>`}
        </dl>
        ${message.dead_letter_records.length > 0 && html`<${DeadLetterRecords} records=${message.dead_letter_records} />`}
        <${Attributes} attributes=${attributesOf(message)} />
        <${Body} key=${id} message=${message} />`}
    </${Told}>
  </section>`;
}

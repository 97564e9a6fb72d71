// The form that sends one message: a body that is text, attributes, a delay.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { send } from "../api.js";
import { Dialog, Failed, tell } from "../parts.js";
import { SPANS, meant } from "../units.js";
import { Measure } from "./settings.js";

// Percent-encoded, as headers have attributes. One that is named twice is refused, not joined.
function headersOf(attributes, delay) {
  const headers = delay === null ? {} : { "X-Message-Delay": String(delay) };
  for (const { name, text } of attributes) {
    const encoded = [...new TextEncoder().encode(name)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
    if (`X-Attribute-${encoded}` in headers) throw new Error(`The attribute ${name} is there twice.`);
    headers[`X-Attribute-${encoded}`] = encodeURIComponent(text);
  }
  return headers;
}

export function SendForm({ queue, onClose, onSent }) {
  const [body, setBody] = useState("");
  const [attributes, setAttributes] = useState([]);
  const [delay, setDelay] = useState({ text: "", unit: "s" });
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isQueues = delay.text.trim() === "";
  const seconds = isQueues ? null : meant(delay, SPANS);
  const isDelay = isQueues || seconds !== null;
  const put = (at, part) => setAttributes((now) => now.map((each, n) => (n === at ? { ...each, ...part } : each)));
  async function submit(event) {
    event.preventDefault();
    if (!isDelay || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      const { id } = await send(queue, body, headersOf(attributes, isQueues ? null : seconds));
      tell(`Sent ${id}.`);
      onSent();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<${Dialog} title="Send a message to ${queue}" onClose=${onClose} isLarge>
    <form onSubmit=${submit}>
      <label class="stacked">Body <span class="quiet">text, sent as UTF-8</span>
        <textarea rows="6" spellcheck=${false} autofocus value=${body} onInput=${(event) => setBody(event.target.value)}></textarea></label>
      ${attributes.map(({ name, text }, at) => html`<div key=${at} class="pair">
        <input aria-label="Name of attribute ${at + 1}" placeholder="attribute" autocomplete="off" spellcheck=${false} value=${name} onInput=${(event) => put(at, { name: event.target.value })} />
        <input aria-label="Value of attribute ${at + 1}" placeholder="value" autocomplete="off" spellcheck=${false} value=${text} onInput=${(event) => put(at, { text: event.target.value })} />
        <button type="button" aria-label="Remove attribute ${at + 1}" onClick=${() => setAttributes((now) => now.filter((_, n) => n !== at))}>×</button>
      </div>`)}
      <p><button type="button" onClick=${() => setAttributes((now) => [...now, { name: "", text: "" }])}>Add an attribute</button></p>
      <${Measure} label="Delay" hint="empty: the queue's own" units=${SPANS} value=${delay} onChange=${setDelay} />
      ${!isDelay && html`<p class="failed">The delay is not a number.</p>`}
      ${error && html`<${Failed} error=${error} />`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${!isDelay || isBusy}>${isBusy ? "Working…" : "Send"}</button>
      </div>
    </form>
  </${Dialog}>`;
}

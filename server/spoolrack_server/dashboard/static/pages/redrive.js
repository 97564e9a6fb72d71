// Dead letters on their way back: the form that starts a redrive, and the list of those that run or have ended.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change } from "../api.js";
import * as format from "../format.js";
import { Dialog, Failed, tell } from "../parts.js";

export const MAX_RATE = 100_000;

export function RedriveForm({ queue, ids, onClose, onStarted }) {
  const [destination, setDestination] = useState("");
  const [source, setSource] = useState("");
  const [rate, setRate] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const perSecond = rate.trim() === "" ? 0 : Number(rate);
  const isRate = Number.isInteger(perSecond) && perSecond >= 0 && perSecond <= MAX_RATE;
  async function start(event) {
    event.preventDefault();
    if (!isRate || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await change("redrives", { queue, destination: destination.trim(), source_queue: source.trim(), rate: perSecond, ids });
      tell(`The redrive of ${queue} has begun.`);
      onStarted();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  const field = (label, value, set, more) => html`<label class="stacked">${label}
    <input autocomplete="off" spellcheck=${false} value=${value} onInput=${(event) => set(event.target.value)} ...${more} /></label>`;
  return html`<${Dialog} title="Redrive ${queue}" onClose=${onClose}>
    <form onSubmit=${start}>
      <p>${ids.length > 0 ? `Moves the ${ids.length === 1 ? "message" : `${format.number(ids.length)} messages`} that you chose` : "Moves all messages that are dead letters now"} out of <code>${queue}</code>, in the background.</p>
      ${field("To the queue", destination, setDestination, { placeholder: "where each came from", maxlength: 80, autofocus: true })}
      ${ids.length === 0 && field("Only those that came from", source, setSource, { placeholder: "any queue", maxlength: 80 })}
      ${field("Messages a second, at most", rate, setRate, { placeholder: "no bound", inputmode: "numeric", maxlength: 6 })}
      ${!isRate && html`<p class="failed">A whole number up to ${format.number(MAX_RATE)}, or nothing.</p>`}
      ${error && html`<${Failed} error=${error} />`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${!isRate || isBusy}>${isBusy ? "Working…" : "Start"}</button>
      </div>
    </form>
  </${Dialog}>`;
}

const STATES = { running: "running", done: "done", cancelled: "cancelled" };

function Progress({ redrive }) {
  const done = redrive.moved + redrive.failed;
  const all = done + redrive.remaining;
  const part = redrive.state === "done" ? 100 : all === 0 ? 0 : Math.floor((done / all) * 100);
  return html`<progress max="100" value=${part} aria-label="Progress of the redrive of ${redrive.queue}">${part} %</progress> <span class="percent">${part} %</span>`;
}

export function Redrives({ redrives, now, onCancel }) {
  return html`<div class="wide"><table class="fixed redrives">
    <caption class="hidden">Redrives, the latest first</caption>
    <colgroup><col class="name" /><col class="to" /><col /><col class="n" /><col class="age" /><col class="meter" /><col class="n" /><col class="n" /><col class="n" /><col class="age" /><col class="meter" /></colgroup>
    <thead><tr>
      <th scope="col">Dead letters of</th><th scope="col">To</th><th scope="col">Only from</th><th scope="col" class="right">Rate</th><th scope="col">State</th><th scope="col">Progress</th>
      <th scope="col" class="right">Moved</th><th scope="col" class="right">Failed</th><th scope="col" class="right">Left</th><th scope="col">Began</th><th scope="col"><span class="hidden">Actions</span></th>
    </tr></thead>
    <tbody>${redrives.map((redrive) => html`<tr key=${redrive.id}>
      <th scope="row"><a href="#/queue/${encodeURIComponent(redrive.queue)}">${redrive.queue}</a></th>
      <td class="cut">${redrive.destination || html`<span class="quiet">where each came from</span>`}</td>
      <td class="cut">${redrive.source_queue || html`<span class="quiet">any</span>`}</td>
      <td class="right">${redrive.rate ? `${format.number(redrive.rate)}/s` : "–"}</td>
      <td><span class="state ${redrive.state}">${STATES[redrive.state]}</span></td>
      <td class="progress"><${Progress} redrive=${redrive} /></td>
      <td class="right">${format.number(redrive.moved)}</td>
      <td class="right">${redrive.failed ? html`<span class="mark" title=${redrive.last_failure}>${format.number(redrive.failed)}</span>` : "0"}</td>
      <td class="right">${format.number(redrive.remaining)}</td>
      <td>${format.span(now - redrive.started_at)} ago</td>
      <td class="right">${redrive.state === "running" && redrive.may_cancel && html`<button type="button" onClick=${() => onCancel(redrive)}>Cancel<span class="hidden"> the redrive of ${redrive.queue}</span></button>`}</td>
    </tr>${redrive.failed > 0 && redrive.last_failure && html`<tr key=${`${redrive.id} why`}><td></td><td colspan="10" class="wrap quiet">Last that stayed: ${format.visible(redrive.last_failure)}</td></tr>`}`)}</tbody>
  </table></div>`;
}

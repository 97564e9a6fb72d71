// Dead letters on their way back: the form that starts a redrive, and the list of those that run or have ended.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { below, change } from "../api.js";
import * as format from "../format.js";
import { Confirm, Dialog, Failed, tell } from "../parts.js";

export const MAX_RATE = 100_000;

// How long it takes to move so many messages at so many a second.
export function duration(count, rate) {
  return format.span(Math.ceil(count / rate) * 1000);
}

function Plan({ count, isBound, rate }) {
  const messages = count === 1 ? "1 message" : `${format.number(count)} messages`;
  return html`<p class="plan" role="status">${isBound && "At most "}<strong>${messages}</strong>, ${rate === 0
    ? "as fast as the disk takes them: their consumers may be flooded."
    : html`${format.number(rate)} a second: it takes ${isBound ? "up to" : "about"} <strong>${duration(count, rate)}</strong>.`}</p>`;
}

// `ready`: how many messages of the queue can be moved now.
export function RedriveForm({ queue, ready, ids, onClose, onStarted }) {
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
      await change("POST", below(queue, "redrives"), { destination: destination.trim(), source_queue: source.trim(), max_messages_per_second: perSecond, message_ids: ids });
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
      <p>${ids.length > 0 ? `Moves the ${ids.length === 1 ? "message" : `${format.number(ids.length)} messages`} that you chose` : `Moves ${ready === 1 ? "the message that is a dead letter" : `all ${format.number(ready)} messages that are dead letters`} now`} out of <code>${queue}</code>, in the background.</p>
      ${field("To the queue", destination, setDestination, { placeholder: "where each came from", maxlength: 80, autofocus: true })}
      ${ids.length === 0 && field("Only those that came from", source, setSource, { placeholder: "any queue", maxlength: 80 })}
      ${field("Messages a second, at most", rate, setRate, { placeholder: "no bound", inputmode: "numeric", maxlength: 6 })}
      ${isRate && html`<${Plan} count=${ids.length || ready} isBound=${ids.length === 0 && source.trim() !== ""} rate=${perSecond} />`}
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
  const done = redrive.moved_count + redrive.failed_count;
  const all = done + redrive.remaining_count;
  // Of one that was cancelled the server does not tell what was left.
  if (redrive.state === "cancelled") return null;
  const part = redrive.state === "done" ? 100 : all === 0 ? 0 : Math.floor((done / all) * 100);
  return html`<progress max="100" value=${part} aria-label="Progress of the redrive of ${redrive.queue}">${part} %</progress> <span class="percent">${part} %</span>`;
}

function left(redrive) {
  if (redrive.state !== "running" || redrive.max_messages_per_second === 0) return "";
  return `, about ${duration(redrive.remaining_count, redrive.max_messages_per_second)} more`;
}

// The redrive that empties a queue now, on that queue's page.
export function RunningRedrive({ redrive, onCancel }) {
  return html`<section class="card" aria-labelledby="redrive">
    <div class="bar tight">
      <h2 id="redrive">A redrive runs</h2>
      <span><${Progress} redrive=${redrive} /></span>
      <span class="grow">${format.number(redrive.moved_count)} moved to ${redrive.destination || "where each came from"}, ${redrive.failed_count > 0 && `${format.number(redrive.failed_count)} failed, `}${format.number(redrive.remaining_count)} left${redrive.max_messages_per_second > 0 && `, ${format.number(redrive.max_messages_per_second)} a second`}${left(redrive)}</span>
      ${onCancel && html`<button type="button" onClick=${onCancel}>Cancel<span class="hidden"> the redrive of ${redrive.queue}</span></button>`}
    </div>
    ${redrive.failed_count > 0 && redrive.last_failure && html`<p class="quiet">Last that stayed: ${format.visible(redrive.last_failure)}</p>`}
  </section>`;
}

export function CancelRedrive({ redrive, onClose, onDone }) {
  async function cancel() {
    await change("POST", `redrives/${redrive.id}/cancel`);
    tell(`The redrive of ${redrive.queue} is cancelled. Messages that it has moved stay moved.`);
    onDone();
  }
  return html`<${Confirm} title="Cancel the redrive of ${redrive.queue}?" button="Cancel the redrive" onClose=${onClose} act=${cancel}>
    <p>The ${format.number(redrive.moved_count)} messages that it has moved stay where they are now. The others stay dead letters.</p>
  </${Confirm}>`;
}

export function Redrives({ redrives, now, onCancel }) {
  return html`<div class="wide"><table class="fixed redrives stack">
    <caption class="hidden">Redrives, the latest first</caption>
    <colgroup><col class="name" /><col class="to" /><col /><col class="n" /><col class="age" /><col class="meter" /><col class="n" /><col class="n" /><col class="n" /><col class="age" /><col class="meter" /></colgroup>
    <thead><tr>
      <th scope="col">Dead letters of</th><th scope="col">To</th><th scope="col">Only from</th><th scope="col" class="right">Rate</th><th scope="col">State</th><th scope="col">Progress</th>
      <th scope="col" class="right">Moved</th><th scope="col" class="right">Failed</th><th scope="col" class="right">Left</th><th scope="col">Began</th><th scope="col"><span class="hidden">Actions</span></th>
    </tr></thead>
    <tbody>${redrives.map((redrive) => html`<tr key=${redrive.id}>
      <th scope="row"><a href="#/queue/${encodeURIComponent(redrive.queue)}">${redrive.queue}</a></th>
      <td class="cut" data-label="To">${redrive.destination || html`<span class="quiet">where each came from</span>`}</td>
      <td class="cut" data-label="Only from">${redrive.source_queue || html`<span class="quiet">any</span>`}</td>
      <td class="right" data-label="Rate">${redrive.max_messages_per_second ? `${format.number(redrive.max_messages_per_second)}/s` : "–"}</td>
      <td><span class="state ${redrive.state}">${STATES[redrive.state]}</span></td>
      <td class="progress"><${Progress} redrive=${redrive} /></td>
      <td class="right" data-label="Moved">${format.number(redrive.moved_count)}</td>
      <td class="right" data-label="Failed">${redrive.failed_count ? html`<span class="mark" title=${redrive.last_failure}>${format.number(redrive.failed_count)}</span>` : "0"}</td>
      <td class="right" data-label="Left">${redrive.state === "cancelled" ? "–" : format.number(redrive.remaining_count)}</td>
      <td data-label="Began">${format.span(now - Date.parse(redrive.start_time))} ago</td>
      <td class="right act">${redrive.state === "running" && redrive.permissions.includes("manage") && html`<button type="button" onClick=${() => onCancel(redrive)}>Cancel<span class="hidden"> the redrive of ${redrive.queue}</span></button>`}</td>
    </tr>${redrive.failed_count > 0 && redrive.last_failure && html`<tr key=${`${redrive.id} why`}><td></td><td colspan="10" class="wrap full quiet">Last that stayed: ${format.visible(redrive.last_failure)}</td></tr>`}`)}</tbody>
  </table></div>`;
}

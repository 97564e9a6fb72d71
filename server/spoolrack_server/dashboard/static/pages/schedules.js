// The schedules of one queue: when each sends, and what can be done to it.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { below, change } from "../api.js";
import * as format from "../format.js";
import { Confirm, Dialog, Empty, Failed, tell } from "../parts.js";

const at = (time) => (time ? format.moment(Date.parse(time)) : "–");

const pathIn = (queue) => (name) => below(queue, `schedules/${encodeURIComponent(name)}`);

function ScheduleForm({ queue, onClose, onDone }) {
  const path = pathIn(queue);
  const [wanted, setWanted] = useState({ name: "", cron: "", time_zone: "UTC", body: "" });
  const [error, setError] = useState(null);
  async function create(event) {
    event.preventDefault();
    const { name, ...content } = wanted;
    try {
      await change("PUT", path(name), content);
      tell(`Created the schedule ${name}.`);
      onDone();
      onClose();
    } catch (failure) {
      setError(failure);
    }
  }
  const field = (label, key, more) => html`<label class="stacked">${label}
    <input autocomplete="off" spellcheck=${false} value=${wanted[key]} onInput=${(event) => setWanted({ ...wanted, [key]: event.target.value })} ...${more} /></label>`;
  return html`<${Dialog} title="New schedule of ${queue}" onClose=${onClose}>
    <form onSubmit=${create}>
      ${field("Name", "name", { required: true, maxlength: 64, autofocus: true })}
      ${field("Cron: minute, hour, day, month, day of the week", "cron", { required: true, placeholder: "30 6 * * MON-FRI" })}
      ${field("Time zone", "time_zone", { required: true })}
      ${field("Body", "body")}
      ${error && html`<${Failed} error=${error} />`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main">Create</button>
      </div>
    </form>
  </${Dialog}>`;
}

export function Schedules({ queue, schedules, maySend, onDone }) {
  const path = pathIn(queue);
  const [isNew, setNew] = useState(false);
  const [doomed, setDoomed] = useState(null);
  const [error, setError] = useState(null);
  async function pause(schedule, isPaused) {
    setError(null);
    try {
      await change("POST", `${path(schedule.name)}/${isPaused ? "pause" : "resume"}`);
      tell(`${isPaused ? "Paused" : "Resumed"} the schedule ${schedule.name}.`);
      onDone();
    } catch (failure) {
      setError(failure);
    }
  }
  async function remove() {
    await change("DELETE", path(doomed.name));
    tell(`Deleted the schedule ${doomed.name}.`);
    onDone();
  }
  return html`<section class="card" aria-labelledby="schedules">
    <div class="bar tight"><h2 id="schedules">Schedules</h2><span class="grow"></span>
      ${maySend && html`<button type="button" onClick=${() => setNew(true)}>New schedule…</button>`}</div>
    ${error && html`<${Failed} error=${error} />`}
    ${schedules.length === 0 ? html`<${Empty}>No message is sent by a schedule.</${Empty}>` : html`<div class="wide"><table class="schedules stack">
      <caption class="hidden">Schedules of ${queue}</caption>
      <thead><tr><th scope="col">Name</th><th scope="col">Cron</th><th scope="col">Time zone</th><th scope="col">Last tick</th><th scope="col">Next tick</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${schedules.map((schedule) => html`<tr key=${schedule.name}>
        <th scope="row"><code>${schedule.name}</code></th>
        <td data-label="Cron"><code>${schedule.cron}</code></td>
        <td data-label="Time zone">${schedule.time_zone}</td>
        <td data-label="Last tick">${at(schedule.last_tick_time)}</td>
        <td data-label="Next tick">${schedule.paused ? "paused" : at(schedule.next_tick_time)}${schedule.obstacles.length > 0 && html`<ul class="obstacles">${schedule.obstacles.map((each) => html`<li key=${each.reason}>${each.explanation}</li>`)}</ul>`}</td>
        <td class="right act">
          <button type="button" onClick=${() => pause(schedule, !schedule.paused)}>${schedule.paused ? "Resume" : "Pause"}<span class="hidden"> ${schedule.name}</span></button>${" "}
          <button type="button" class="danger" onClick=${() => setDoomed(schedule)}>Delete<span class="hidden"> ${schedule.name}</span></button>
        </td>
      </tr>`)}</tbody>
    </table></div>`}
    ${isNew && html`<${ScheduleForm} queue=${queue} onClose=${() => setNew(false)} onDone=${onDone} />`}
    ${doomed && html`<${Confirm} title="Delete the schedule ${doomed.name}?" button="Delete the schedule" onClose=${() => setDoomed(null)} act=${remove}>
      <p>No more messages of it are sent. Those that were sent stay.</p>
    </${Confirm}>`}
  </section>`;
}

// One queue: its counts and rates, its last hour, its ages, its settings, its messages, and what can be done to it.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { below, change, get, queuePath } from "../api.js";
import * as format from "../format.js";
import { Confirm, Told, tell } from "../parts.js";
import { usePoll } from "../poll.js";
import { note, rates } from "../rates.js";
import { Cells, bucketNames } from "./ages.js";
import { consumerOf } from "./consumers.js";
import { LastHour } from "./history.js";
import { Messages } from "./messages.js";
import { Purge } from "./purge.js";
import { pausedWords } from "./queues.js";
import { CancelRedrive, RedriveForm, RunningRedrive } from "./redrive.js";
import { Schedules } from "./schedules.js";
import { SendForm } from "./send.js";
import { Settings, SettingsForm } from "./settings.js";

// All that the page shows of a queue.
async function look(name, signal) {
  const queue = await get(queuePath(name), {}, signal);
  note([queue]);
  const target = queue.settings.dead_letter_queue;
  const [ages, schedules, redrives, targets] = await Promise.all([
    get(below(name, "ages"), {}, signal),
    queue.permissions.includes("manage") ? get(below(name, "schedules"), {}, signal) : { schedules: null },
    queue.is_dead_letter_queue ? get("redrives", { queue: name, last: 1 }, signal) : { redrives: [] },
    target ? get("queues", { prefix: target, page_size: 1, fields: "name" }, signal) : { queues: [] },
  ]);
  const [last = null] = redrives.redrives;
  return {
    ...queue, ages, schedules: schedules.schedules,
    redrive: last !== null && last.state === "running" ? last : null,
    // Changes as a redrive begins and ends: the list of messages is another one then.
    redriven: last === null ? "" : `${last.id} ${last.state}`,
    // Or it isn't the caller's to see.
    lacksTarget: target !== "" && !targets.queues.some((each) => each.name === target),
  };
}

function Figure({ label, children, hint }) {
  return html`<div class="figure" title=${hint}><dt>${label}</dt><dd>${children}</dd></div>`;
}

// A click pauses or resumes one direction of a queue.
function Flow({ queue, setting, onDone }) {
  const isPaused = queue.settings[setting] === "paused";
  const [isBusy, setBusy] = useState(false);
  async function turn() {
    setBusy(true);
    try {
      await change("PATCH", queuePath(queue.name), { [setting]: isPaused ? "open" : "paused" });
      tell(`${queue.name}: ${setting} is ${isPaused ? "resumed" : "paused"}.`);
    } catch (failure) {
      tell(failure.message);
    }
    setBusy(false);
    onDone();
  }
  return html`<button type="button" disabled=${isBusy} onClick=${turn}>${isPaused ? "Resume" : "Pause"} ${setting}</button>`;
}

function Delete({ queue, onClose }) {
  async function remove() {
    await change("DELETE", queuePath(queue.name));
    tell(`The queue ${queue.name} is deleted.`);
    location.hash = "#/queues";
  }
  const { ready_count: ready, leased_count: leased, delayed_count: delayed } = queue.counts;
  return html`<${Confirm} title="Delete the queue ${queue.name}?" button="Delete the queue" typed=${queue.name} onClose=${onClose} act=${remove}>
    <p>The queue, its settings, its schedules and its ${format.number(ready + leased + delayed)} messages are deleted, also those that consumers have leased. That can't be undone.</p>
  </${Confirm}>`;
}

export function QueuePage({ name, query }) {
  // Which dialog is open: "delete", "purge", "redrive", "send", "settings", or a redrive that is to be cancelled.
  const [dialog, setDialog] = useState(null);
  const [turn, setTurn] = useState(0);
  const poll = usePoll((signal) => look(name, signal), 2000, `queue ${name}`);
  const queue = poll.found;
  const now = rates(name);
  const may = (what) => queue !== null && queue.permissions.includes(what);
  const close = () => setDialog(null);
  const changed = () => { setTurn((count) => count + 1); poll.again(); };
  return html`
    <div class="bar">
      <h1><a href="#/queues">Queues</a> <span aria-hidden="true">/</span> ${name}</h1>
      ${queue !== null && queue.is_dead_letter_queue && html`<span class="tag">dead-letter queue</span>`}
      ${queue !== null && pausedWords(queue.settings) && html`<span class="tag">${pausedWords(queue.settings)}</span>`}
      <span class="grow"></span>
      ${may("send") && html`<button type="button" onClick=${() => setDialog("send")}>Send…</button>`}
      ${may("manage") && queue.is_dead_letter_queue && queue.redrive === null && html`<button type="button" disabled=${queue.counts.ready_count === 0} onClick=${() => setDialog("redrive")}>Redrive all…</button>`}
      ${may("manage") && ["receiving", "sending"].map((setting) => html`<${Flow} key=${setting} queue=${queue} setting=${setting} onDone=${poll.again} />`)}
      ${may("manage") && html`<button type="button" class="danger" onClick=${() => setDialog("purge")}>Purge…</button>
        <button type="button" class="danger" onClick=${() => setDialog("delete")}>Delete the queue…</button>`}
    </div>
    <${Told} poll=${poll}>
      ${queue !== null && html`
        ${queue.blocking_message && html`<p class="warned" role="status"><strong>Blocked.</strong> Message <code>${queue.blocking_message.id}</code>: ${queue.blocking_message.explanation}.</p>`}
        ${queue.lacksTarget && html`<p class="warned"><strong>No dead-letter queue.</strong> <code>${queue.settings.dead_letter_queue}</code> is missing, or not yours to see: until it is created, messages are delivered on.</p>`}
        ${queue.redrive !== null && html`<${RunningRedrive} redrive=${queue.redrive} onCancel=${may("manage") && (() => setDialog(queue.redrive))} />`}
        <dl class="figures">
          <${Figure} label="Ready">${format.number(queue.counts.ready_count)}</${Figure}>
          <${Figure} label="Leased">${format.number(queue.counts.leased_count)}</${Figure}>
          <${Figure} label="Delayed">${format.number(queue.counts.delayed_count)}</${Figure}>
          <${Figure} label="Oldest" hint="of those that are ready or leased">${format.age(queue.counts.oldest_age)}</${Figure}>
          <${Figure} label="In/s" hint="what this server process brought in">${format.rate(now.entered)}</${Figure}>
          <${Figure} label="Out/s" hint="what this server process deleted, let expire or moved away">${format.rate(now.left)}</${Figure}>
          <${Figure} label="Size">${format.bytes(queue.counts.byte_count)}</${Figure}>
        </dl>
        <div class="parts"><div class="columns">
          <${LastHour} queue=${name} />
          <${Settings} queue=${queue} onEdit=${may("manage") && (() => setDialog("settings"))} />
        </div>
        <${Standstill} queue=${queue} />
        ${queue.ages.queues.length > 0 && html`<section class="card" aria-labelledby="ages"><h2 id="ages">Ready by age</h2>
          <div class="wide"><table class="ages stack">
            <thead><tr>${bucketNames(queue.ages.bounds).map((bucket) => html`<th key=${bucket} scope="col" class="right">${bucket}</th>`)}</tr></thead>
            <tbody>${queue.ages.queues.map(({ counts }) => html`<tr key=ages><${Cells} names=${bucketNames(queue.ages.bounds)} counts=${counts} most=${Math.max(1, ...counts)} /></tr>`)}</tbody>
          </table></div>
        </section>`}
        ${queue.schedules !== null && html`<${Schedules} queue=${name} schedules=${queue.schedules} maySend=${may("send")} onDone=${poll.again} />`}
        <${Messages} key=${`${turn} ${queue.redriven}`} queue=${name} query=${query} mayReceive=${may("receive")} mayManage=${may("manage")} isDeadLetterQueue=${queue.is_dead_letter_queue} onChange=${poll.again} /></div>`}
    </${Told}>
    ${dialog === "send" && html`<${SendForm} queue=${name} onClose=${close} onSent=${changed} />`}
    ${dialog === "settings" && html`<${SettingsForm} queue=${queue} onClose=${close} onDone=${poll.again} />`}
    ${dialog === "redrive" && html`<${RedriveForm} queue=${name} ready=${queue.counts.ready_count} ids=${[]} onClose=${close} onStarted=${changed} />`}
    ${dialog !== null && dialog.id && html`<${CancelRedrive} redrive=${dialog} onClose=${close} onDone=${changed} />`}
    ${dialog === "delete" && html`<${Delete} queue=${queue} onClose=${close} />`}
    ${dialog === "purge" && html`<${Purge} queue=${queue} onClose=${close} onDone=${changed} />`}
  `;
}

function consumerSince(lease) {
  return lease.receive_time ? `${consumerOf(lease)}, since ${format.moment(lease.receive_time)}` : consumerOf(lease);
}

/** Why messages don't move, and the leases that were received first. */
function Standstill({ queue }) {
  const obstacles = queue.obstacles.filter((each) => each.reason !== "MESSAGE_BLOCKS");
  const leases = queue.oldest_leases;
  if (obstacles.length === 0 && leases.length === 0) return null;
  return html`<section class="card" aria-labelledby="standstill"><h2 id="standstill">${obstacles.length > 0 ? "Obstacles" : "Leases"}</h2>
    ${obstacles.length > 0 && html`<ul class="obstacles">${obstacles.map((each) => html`<li key=${each.reason + each.explanation}>${each.explanation}</li>`)}</ul>`}
    ${leases.length > 0 && html`<div class="wide"><table class="leases stack">
      <thead><tr><th scope="col">Oldest leases</th><th scope="col" class="right">Messages</th><th scope="col">First received</th><th scope="col">Lease ends</th><th scope="col" class="right">Receives</th><th scope="col">Consumer</th></tr></thead>
      <tbody>${leases.map((each) => html`<tr key=${each.message_id}>
        <th scope="row"><code>${each.message_id}</code></th>
        <td data-label="Messages" class="right">${format.number(each.message_count)}</td>
        <td data-label="First received">${format.moment(each.first_receive_time)}</td>
        <td data-label="Lease ends">${format.moment(each.lease_expire_time)}</td>
        <td data-label="Receives" class="right">${format.number(each.receive_count)}</td>
        <td data-label="Consumer" class="wrap">${consumerSince(each)}</td>
      </tr>`)}</tbody>
    </table></div>`}
  </section>`;
}

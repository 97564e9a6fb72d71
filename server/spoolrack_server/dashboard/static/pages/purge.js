// The dialog that purges a queue: all of its messages, or those of an age and a state.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change, now, queuePath } from "../api.js";
import * as format from "../format.js";
import { Confirm, tell } from "../parts.js";

const HOUR = 3_600_000;
export const AGES = [["any age", 0], ["older than an hour", HOUR], ["older than a day", 24 * HOUR], ["older than a week", 168 * HOUR], ["older than 30 days", 720 * HOUR]];
export const sentBefore = (age) => new Date(now() - age).toISOString();
const STATES = ["ready", "leased", "delayed"];

export function Purge({ queue, onClose, onDone }) {
  const [age, setAge] = useState(0);
  const [state, setState] = useState("");
  const name = queue.name;
  async function purge() {
    const wanted = new URLSearchParams({ ...(age && { sent_before: sentBefore(age) }), ...(state && { states: state }) });
    const { purged_count: purged } = await change("DELETE", `${queuePath(name)}/messages?${wanted}`);
    tell(`Purged ${name}: ${format.number(purged)} messages deleted.`);
    onDone();
  }
  const { ready_count: ready, leased_count: leased, delayed_count: delayed } = queue.counts;
  const count = state ? { ready, leased, delayed }[state] : ready + leased + delayed;
  return html`<${Confirm} title="Purge ${name}?" button="Purge" typed=${name} onClose=${onClose} act=${purge}>
    <label class="stacked">State
      <select value=${state} onChange=${(event) => setState(event.target.value)}>
        <option value="">any</option>${STATES.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select></label>
    <label class="stacked">Age
      <select value=${age} onChange=${(event) => setAge(Number(event.target.value))}>
        ${AGES.map(([text, span]) => html`<option key=${span} value=${span}>${text}</option>`)}
      </select></label>
    <p>${age ? `Of ${format.number(count)} messages, those that are ${AGES.find(([, span]) => span === age)[0]} are` : `All ${format.number(count)} messages are`} deleted${state ? "" : ", also those that consumers have leased and those that are delayed"}. That can't be undone.</p>
  </${Confirm}>`;
}

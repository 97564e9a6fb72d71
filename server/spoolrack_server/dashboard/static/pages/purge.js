// The dialog that purges a queue: all of its messages, or those of an age and a state.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change } from "../api.js";
import * as format from "../format.js";
import { Confirm, tell } from "../parts.js";

const HOUR = 3_600_000;
export const AGES = [["any age", 0], ["older than an hour", HOUR], ["older than a day", 24 * HOUR], ["older than a week", 168 * HOUR], ["older than 30 days", 720 * HOUR]];
const STATES = ["ready", "leased", "delayed"];

export function Purge({ queue, onClose, onDone }) {
  const [age, setAge] = useState(0);
  const [state, setState] = useState("");
  const name = queue.name;
  async function purge() {
    const { deleted } = await change("queues/purge", { queue: name, confirm: name, older_than: age, states: state ? [state] : [] });
    tell(`Purged ${name}: ${format.number(deleted)} messages deleted.`);
    onDone();
  }
  const count = state ? queue[state] : queue.ready + queue.leased + queue.delayed;
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

// A queue's settings: how they are shown, and the form that creates a queue or changes its settings. What
// is valid the server says.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { change, queuePath } from "../api.js";
import * as format from "../format.js";
import { Dialog, Failed, tell } from "../parts.js";
import { SETTINGS } from "../schema.js";
import { COUNTS, RATES, SIZES, SPANS, meant, written } from "../units.js";

const seconds = (value) => format.span(value * 1000);
// How the values of a kind are written, and their units.
const KINDS = { span: [seconds, SPANS], count: [format.number, COUNTS], rate: [(value) => `${value}/s`, RATES], size: [format.bytes, SIZES], choice: [String] };
// The words of a choice, and the unit of a number that has one, by setting.
const WORDS = {
  dead_letter_at: { lease_end: "when the lease ends", receive: "at the next receive" },
  lease_durability: { strict: "synced before the answer", relaxed: "synced later" },
  group_order: { fair: "fair", strict: "strict" },
  backoff_at: { release: "a release", lease_end: "a release, or the end of a lease" },
};
const UNITS = { backoff_factor: (value) => `× ${format.number(value)}`, backoff_jitter: (value) => `${format.number(value)} %` };
const chosenWord = (name) => (choice) => (WORDS[name] && WORDS[name][choice]) || choice;
const FIELDS = SETTINGS.filter(({ kind }) => kind !== "queue").map((setting) => {
  const [plain, units] = KINDS[setting.kind];
  const write = setting.kind === "choice" ? chosenWord(setting.name) : UNITS[setting.name] || plain;
  return { ...setting, units, write: (value) => (value === 0 && setting.zero ? setting.zero : write(value)) };
});

const DEFAULTS = Object.fromEntries(SETTINGS.map((setting) => [setting.name, setting.default]));

const linked = (queue) => html`<a href="#/queue/${encodeURIComponent(queue)}">${queue}</a>`;

export function Settings({ queue, onEdit }) {
  const own = FIELDS.filter(({ name }) => queue.settings[name] !== DEFAULTS[name]);
  const others = FIELDS.filter((field) => !own.includes(field));
  const one = ({ name, title, write }) => html`<div key=${name}><dt>${title}</dt><dd>${write(queue.settings[name])}</dd></div>`;
  return html`<section class="card" aria-labelledby="settings">
    <div class="bar tight">
      <h2 id="settings">Settings</h2><span class="grow"></span>
      ${onEdit && html`<button type="button" onClick=${onEdit}>Edit…<span class="hidden"> the settings</span></button>`}
    </div>
    <dl class="settings">
      ${own.map(one)}
      <div><dt>Dead letters to</dt><dd>${queue.settings.dead_letter_queue ? linked(queue.settings.dead_letter_queue) : "nowhere"}</dd></div>
      ${queue.is_dead_letter_queue && html`<div><dt>Dead letters of</dt><dd>${queue.dead_letter_sources.length === 0 ? "queues that are not yours to see" : queue.dead_letter_sources.map((source, at) => html`${at > 0 && ", "}${linked(source)}`)}</dd></div>`}
      ${Object.entries(queue.labels).sort().map(([label, text]) => html`<div key=${`label ${label}`}><dt>Label ${label}</dt><dd>${text}</dd></div>`)}
      <div><dt>Created</dt><dd>${format.moment(queue.create_time)}</dd></div>
    </dl>
    <details><summary>${others.length} settings have their defaults</summary><dl class="settings">${others.map(one)}</dl></details>
  </section>`;
}

export function Measure({ label, hint, value, units, onChange, ...more }) {
  return html`<div class="stacked measure">
    <label>${label}${hint && html` <span class="quiet">${hint}</span>`}
      <input inputmode="decimal" autocomplete="off" maxlength="20" value=${value.text} onInput=${(event) => onChange({ ...value, text: event.target.value })} ...${more} /></label>
    ${units.length > 1 && html`<select aria-label="Unit of: ${label}" value=${value.unit} onChange=${(event) => onChange({ ...value, unit: event.target.value })}>
      ${units.map(([unit]) => html`<option key=${unit} value=${unit}>${unit}</option>`)}</select>`}
  </div>`;
}

// Without a `queue` it creates one.
export function SettingsForm({ queue, onClose, onDone }) {
  // As they were when the form was opened: what another changes meanwhile is not taken back by a save.
  const [before] = useState(queue === undefined ? DEFAULTS : queue.settings);
  const [name, setName] = useState("");
  const [values, setValues] = useState(() => Object.fromEntries([["dead_letter_queue", before.dead_letter_queue],
    ...FIELDS.map(({ name: key, units }) => [key, units ? written(before[key], units) : before[key]])]));
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (key) => (value) => setValues((now) => ({ ...now, [key]: value }));
  const asked = { dead_letter_queue: values.dead_letter_queue.trim() };
  const wrong = [];
  for (const { name: key, title, units } of FIELDS) {
    asked[key] = units ? meant(values[key], units) : values[key];
    if (asked[key] === null) wrong.push(title);
  }
  const changed = Object.fromEntries(Object.entries(asked).filter(([key, value]) => value !== before[key]));
  const isComplete = queue === undefined ? name.trim() !== "" : Object.keys(changed).length > 0;
  const canSave = isComplete && wrong.length === 0 && !isBusy;
  async function save(event) {
    event.preventDefault();
    if (!canSave) return;
    setBusy(true);
    setError(null);
    try {
      const wanted = queue === undefined ? name.trim() : queue.name;
      // All of a new one's: a queue that is there with others is refused.
      await (queue === undefined ? change("PUT", queuePath(wanted), asked) : change("PATCH", queuePath(wanted), changed));
      tell(queue === undefined ? `The queue ${wanted} is created.` : `The settings of ${wanted} are changed.`);
      onDone(wanted);
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${queue === undefined ? "Create a queue" : `Settings of ${queue.name}`} onClose=${onClose} isLarge>
    <form onSubmit=${save}>
      ${queue === undefined && html`<label class="stacked">Name
        <input autocomplete="off" spellcheck=${false} maxlength="80" autofocus value=${name} onInput=${(event) => setName(event.target.value)} /></label>`}
      <div class="fields">
        ${FIELDS.map(({ name: key, title, units, zero, choices }) => (units
          ? html`<${Measure} key=${key} label=${title} hint=${zero && `0: ${zero}`} units=${units} value=${values[key]} onChange=${set(key)} />`
          : html`<label key=${key} class="stacked">${title}
            <select value=${values[key]} onChange=${(event) => set(key)(event.target.value)}>
              ${choices.map((choice) => html`<option key=${choice} value=${choice}>${chosenWord(key)(choice)}</option>`)}</select></label>`))}
        <label class="stacked">Dead letters to <span class="quiet">empty: nowhere</span>
          <input autocomplete="off" spellcheck=${false} maxlength="80" value=${values.dead_letter_queue} onInput=${(event) => set("dead_letter_queue")(event.target.value)} /></label>
      </div>
      ${wrong.length > 0 && html`<p class="failed">Not a number: ${wrong.join(", ")}.</p>`}
      ${error && html`<${Failed} error=${error} />`}
      <div class="buttons">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${!canSave}>${isBusy ? "Working…" : queue === undefined ? "Create" : "Save"}</button>
      </div>
    </form>
  </${Dialog}>`;
}

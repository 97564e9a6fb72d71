// A queue's messages, a page at a time, without leasing any. It isn't asked again by itself: what one
// looks at stays where it is.

import { html, useMemo, useState } from "../vendor/htm/standalone.module.js";
import { seek } from "../address.js";
import { below, change, get, now, queuePath } from "../api.js";
import * as format from "../format.js";
import { Confirm, Empty, Told, openRow, tell } from "../parts.js";
import { usePoll } from "../poll.js";
import { MessagePanel, attributesOf, reasonOf } from "./message.js";
import { AGES, sentBefore } from "./purge.js";
import { RedriveForm } from "./redrive.js";

const PAGE = 25;
// Bytes of each body.
const GLIMPSE = 200;
const ONCE = 3_600_000;

function glimpse(message) {
  if (message.body === undefined && message.binary_body === undefined) return html`<span class="quiet">large: open it</span>`;
  if (message.body_size === 0) return html`<span class="quiet">empty</span>`;
  const raw = format.bodyOf(message);
  const text = format.textOf(raw, raw.length < message.body_size);
  if (text === null || format.looksBinary(text)) return html`<code class="quiet">${format.hex(raw.subarray(0, 16)).slice(10, 58)}</code>`;
  return format.visible(text.slice(0, 120).replace(/\s+/g, " "));
}

function briefly(message) {
  const written = attributesOf(message).map(({ name, text }) => (text === undefined ? `${name}: binary` : `${name}=${text.slice(0, 40)}`));
  return format.visible(written.join(", ").slice(0, 120).replace(/\s+/g, " "));
}

// Why a message is a dead letter: the last time, if it became one more often.
function DeadLetterCells({ message }) {
  if (message.dead_letter_records.length === 0) return html`<td></td><td></td><td></td><td></td>`;
  const last = message.dead_letter_records[message.dead_letter_records.length - 1];
  return html`
    <td class="cut" data-label="From"><a href="#/queue/${encodeURIComponent(last.source_queue)}">${last.source_queue}</a></td>
    <td class="why" data-label="Why" title=${reasonOf(last)}><span>${reasonOf(last)}</span></td>
    <td class="right" data-label="Dead for" title=${format.moment(last.dead_letter_time)}>${format.span(now() - Date.parse(last.dead_letter_time))}</td>
    <td class="right" data-label="Receives before">${format.number(last.receive_count)}</td>`;
}

export function Messages({ mayReceive, ...rest }) {
  if (mayReceive) return html`<${Peek} ...${rest} />`;
  return html`<section class="card"><h2>Messages</h2><${Empty}>To look at messages takes the permission receive on this queue.</${Empty}></section>`;
}

// The filter and the message that is open are in the address; the page of the list is not.
function Peek({ queue, query, mayManage, isDeadLetterQueue, onChange }) {
  const { state = "", group = "", attribute = "", message: open = null } = query;
  const age = Number(query.age) || 0;
  // The same moment for all pages of a list.
  const before = useMemo(() => (age ? sentBefore(age) : ""), [age]);
  const filtered = JSON.stringify([state, age, group, attribute]);
  const [view, setView] = useState({ filtered, trail: [""], chosen: new Set() });
  const { trail, chosen } = view.filtered === filtered ? view : { trail: [""], chosen: new Set() };
  const [doomed, setDoomed] = useState(null);
  const [redriven, setRedriven] = useState(null);
  const after = trail[trail.length - 1];
  const isFiltered = Boolean(state || age || group || attribute.includes("="));
  const wanted = { states: state, page_token: after, page_size: PAGE, max_body_bytes: GLIMPSE, sent_before: before, group, attribute: attribute.includes("=") ? attribute : "" };
  const filter = (key) => (event) => seek({ [key]: event.target.value === "0" ? "" : event.target.value, message: "" });
  const poll = usePoll((signal) => get(below(queue, "messages"), wanted, signal), ONCE, `messages ${queue} ${JSON.stringify(wanted)}`);
  const found = poll.found;
  const setOpen = (id) => seek({ message: id });
  const setChosen = (next) => setView({ filtered, trail, chosen: next });
  const turn = (next) => setView({ filtered, trail: next, chosen: new Set() });
  function choose(id, isChosen) {
    const next = new Set(chosen);
    if (isChosen) next.add(id);
    else next.delete(id);
    setChosen(next);
  }
  async function remove() {
    const done = await Promise.allSettled(doomed.map((id) => change("DELETE", `${queuePath(queue)}/messages/${id}`)));
    const failures = done.filter((each) => each.status === "rejected");
    tell(`Deleted ${format.number(doomed.length - failures.length)} of ${format.number(doomed.length)}.${failures.length ? ` ${failures[0].reason.message}` : ""}`);
    if (doomed.includes(open)) setOpen("");
    setChosen(new Set());
    poll.again();
    onChange();
  }
  const ids = [...chosen];
  const some = ids.length === 0 ? "" : ` ${ids.length}`;
  const every = found === null ? [] : found.messages.map((message) => message.id);
  const haveRecords = isDeadLetterQueue || (found !== null && found.messages.some((message) => message.dead_letter_records.length > 0));
  const canRedrive = mayManage && haveRecords;
  const areAll = every.length > 0 && every.every((id) => chosen.has(id));
  function close() {
    // Back to where it was opened.
    const row = document.querySelector("table.messages button[aria-expanded=true]");
    setOpen("");
    if (row) row.focus();
  }
  const message = html`<${MessagePanel} key=${open} queue=${queue} id=${open} onClose=${close} onDelete=${() => setDoomed([open])} onRedrive=${mayManage && (() => setRedriven([open]))} />`;
  const panel = html`<tr key="panel" class="inside"><td colspan=${haveRecords ? 9 : 8}>${message}</td></tr>`;
  return html`<section class="card" aria-labelledby="messages">
    <div class="bar tight">
      <h2 id="messages">Messages</h2>
      <label>State${" "}<select value=${state} onChange=${filter("state")}>
        <option value="">any</option><option value="ready">ready</option><option value="leased">leased</option><option value="delayed">delayed</option>
      </select></label>
      <label>Age${" "}<select value=${age} onChange=${filter("age")}>${AGES.map(([text, span]) => html`<option key=${span} value=${span}>${text}</option>`)}</select></label>
      <label>Group${" "}<input size="8" maxlength="128" spellcheck=${false} value=${group} onChange=${filter("group")} /></label>
      <label>Attribute${" "}<input size="12" placeholder="name=value" spellcheck=${false} value=${attribute} onChange=${filter("attribute")} /></label>
      <button type="button" onClick=${poll.again}>Look again</button>
      <span class="grow"></span>
      ${canRedrive && html`<button type="button" class="steady" disabled=${ids.length === 0} onClick=${() => setRedriven(ids)}>Redrive${some}…</button>`}
      <button type="button" class="danger steady" disabled=${ids.length === 0} onClick=${() => setDoomed(ids)}>Delete${some}…</button>
      <span class="pager">
        <button type="button" disabled=${trail.length === 1} onClick=${() => turn(trail.slice(0, -1))}>Before</button>
        <button type="button" disabled=${found === null || !found.next_page_token} onClick=${() => turn([...trail, found.next_page_token])}>Next</button>
      </span>
    </div>
    ${open !== null && found !== null && !every.includes(open) && message}
    <${Told} poll=${poll}>
      ${found !== null && (found.messages.length === 0 ? html`<${Empty}>${found.next_page_token ? "None among the messages looked at so far. Next looks at others." : after ? "There are no more." : isFiltered ? "No message is like that." : "The queue is empty."}</${Empty}>` : html`
        <div class="wide"><table class="messages stack${haveRecords ? " letters" : ""}" data-keys onClick=${openRow}>
          <caption class="hidden">Messages, the oldest first</caption>
          <colgroup><col class="check" /><col class="id" /><col class="status" />${haveRecords && html`<col class="source" /><col class="why" />`}<col class="age" /><col class=${haveRecords ? "before" : "n"} /><col class="n" />${!haveRecords && html`<col class="some" />`}<col /></colgroup>
          <thead><tr>
            <th scope="col"><input type="checkbox" aria-label="Choose all of this page" checked=${areAll} onChange=${(event) => setChosen(new Set(event.target.checked ? every : []))} /></th>
            <th scope="col">Id</th><th scope="col">State</th>${haveRecords ? html`<th scope="col">From</th><th scope="col">Why</th><th scope="col" class="right">Dead for</th>` : html`<th scope="col" class="right">Age</th>`}<th scope="col" class="right" title=${haveRecords ? "before it became a dead letter" : ""}>${haveRecords ? "Receives before" : "Receives"}</th><th scope="col" class="right">Size</th>${!haveRecords && html`<th scope="col">Attributes</th>`}<th scope="col">Body begins</th>
          </tr></thead>
          <tbody>${found.messages.map((message) => html`<tr key=${message.id} class=${message.id === open ? "open" : ""}>
            <td class="pick"><input type="checkbox" aria-label=${`Choose ${message.id}`} checked=${chosen.has(message.id)} onChange=${(event) => choose(message.id, event.target.checked)} /></td>
            <th scope="row"><button type="button" data-row class="link" aria-expanded=${message.id === open} onClick=${() => setOpen(message.id === open ? "" : message.id)}><code>${message.id}</code></button></th>
            <td><span class="state ${message.state}">${message.state}</span></td>
            ${haveRecords ? html`<${DeadLetterCells} message=${message} />` : html`
              <td class="right" data-label="Age">${format.span(now() - Date.parse(message.send_time))}</td>
              <td class="right" data-label="Receives">${format.number(message.receive_count)}</td>`}
            <td class="right" data-label="Size">${format.bytes(message.body_size)}</td>
            ${!haveRecords && html`<td class="cut full attrs">${briefly(message)}</td>`}
            <td class="cut full body">${glimpse(message)}</td>
          </tr>${message.id === open && panel}`)}</tbody>
        </table></div>`)}
    </${Told}>
    ${doomed && html`<${Confirm} title=${doomed.length === 1 ? "Delete this message?" : `Delete ${format.number(doomed.length)} messages?`} button="Delete" onClose=${() => setDoomed(null)} act=${remove}>
      <p>${doomed.length === 1 ? html`<code>${doomed[0]}</code> is` : "They are"} deleted in whatever state, also while a consumer has a lease. That can't be undone.</p>
    </${Confirm}>`}
    ${redriven && html`<${RedriveForm} queue=${queue} ready=${redriven.length} ids=${redriven} onClose=${() => setRedriven(null)} onStarted=${() => { setChosen(new Set()); onChange(); }} />`}
  </section>`;
}

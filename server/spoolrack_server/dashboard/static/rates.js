// What queues have done while this page looked: kept here alone, as the server tells totals, not rates.
// Totals are one process's: from another one, or after a restart, the count begins anew.

const KEPT = 150;
const MOST_QUEUES = 2_000;
const SMOOTH = 4;

const queues = new Map();

export function note(rows, at, by) {
  for (const row of rows) {
    let samples = queues.get(row.name);
    const last = samples && samples[samples.length - 1];
    if (!samples || last.by !== by || row.entered < last.entered || row.left < last.left || at < last.at) {
      samples = [];
      // Those that nobody has asked for longest go first.
      if (queues.size >= MOST_QUEUES && !queues.has(row.name)) queues.delete(queues.keys().next().value);
    } else if (at - last.at < 500) {
      continue;
    }
    samples.push({ at, by, wall: Date.now(), entered: row.entered, left: row.left, ready: row.ready, held: row.ready + row.leased });
    if (samples.length > KEPT) samples.shift();
    queues.delete(row.name);
    queues.set(row.name, samples);
  }
}

// Messages a second over the last few looks: {entered, left}, null as long as there was one look only.
export function rates(name) {
  const samples = queues.get(name);
  if (!samples || samples.length < 2) return { entered: null, left: null };
  const last = samples[samples.length - 1];
  const first = samples[Math.max(0, samples.length - SMOOTH)];
  const seconds = (last.at - first.at) / 1000;
  return { entered: (last.entered - first.entered) / seconds, left: (last.left - first.left) / seconds };
}

export const waiting = (name) => (queues.get(name) || []).slice(-30).map((sample) => sample.ready);

// For a chart: [seconds], [in], [out], [ready].
export function series(name) {
  const samples = queues.get(name) || [];
  const rows = [[], [], [], []];
  for (let at = 1; at < samples.length; at += 1) {
    const [before, now] = [samples[at - 1], samples[at]];
    const seconds = (now.at - before.at) / 1000;
    rows[0].push(now.wall / 1000);
    rows[1].push((now.entered - before.entered) / seconds);
    rows[2].push((now.left - before.left) / seconds);
    rows[3].push(now.ready);
  }
  return rows;
}

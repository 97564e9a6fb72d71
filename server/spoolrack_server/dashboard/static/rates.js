// Messages a second over the last few looks of this page, from the totals that the server tells. Totals are
// one process's: from another process, or after a restart, the count begins anew.

const KEPT = 4;
const MOST_QUEUES = 2_000;

const queues = new Map();

export function note(rows, at, by) {
  for (const row of rows) {
    let samples = queues.get(row.name);
    const last = samples && samples[samples.length - 1];
    if (!samples || last.by !== by || row.entered < last.entered || row.left < last.left || at < last.at) {
      samples = [];
      // The queue that was asked for longest ago goes first.
      if (queues.size >= MOST_QUEUES && !queues.has(row.name)) queues.delete(queues.keys().next().value);
    } else if (at - last.at < 500) {
      continue;
    }
    samples.push({ at, by, entered: row.entered, left: row.left });
    if (samples.length > KEPT) samples.shift();
    queues.delete(row.name);
    queues.set(row.name, samples);
  }
}

// {entered, left}, null as long as there was one look only.
export function rates(name) {
  const samples = queues.get(name);
  if (!samples || samples.length < 2) return { entered: null, left: null };
  const [first, last] = [samples[0], samples[samples.length - 1]];
  const seconds = (last.at - first.at) / 1000;
  return { entered: (last.entered - first.entered) / seconds, left: (last.left - first.left) / seconds };
}

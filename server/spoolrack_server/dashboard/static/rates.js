// Messages a second over the last few looks of this page, from the totals that the server tells. Totals are
// one process's: from another process, or after a restart, the count begins anew.

const KEPT = 4;
const MOST_QUEUES = 2_000;

const queues = new Map();

export function note(rows) {
  for (const { name, traffic: { entered_count: entered, left_count: left, time: at, process: by } } of rows) {
    let samples = queues.get(name);
    const last = samples && samples[samples.length - 1];
    if (!samples || last.by !== by || entered < last.entered || left < last.left || at < last.at) {
      samples = [];
      // The queue that was asked for longest ago goes first.
      if (queues.size >= MOST_QUEUES && !queues.has(name)) queues.delete(queues.keys().next().value);
    } else if (at - last.at < 0.5) {
      continue;
    }
    samples.push({ at, by, entered, left });
    if (samples.length > KEPT) samples.shift();
    queues.delete(name);
    queues.set(name, samples);
  }
}

// {entered, left}, null as long as there was one look only.
export function rates(name) {
  const samples = queues.get(name);
  if (!samples || samples.length < 2) return { entered: null, left: null };
  const [first, last] = [samples[0], samples[samples.length - 1]];
  const seconds = last.at - first.at;
  return { entered: (last.entered - first.entered) / seconds, left: (last.left - first.left) / seconds };
}

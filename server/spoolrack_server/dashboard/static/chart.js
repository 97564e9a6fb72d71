// The last hour of a queue, from the samples that the server keeps. The label says in words what the
// picture shows.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm/standalone.module.js";
import * as format from "./format.js";

const HIGH = 194;

const perSecond = (value) => (value == null ? "–" : `${format.rate(value)}/s`);
const count = (value) => (value == null ? "–" : format.number(value));
const age = (value) => (value == null ? "–" : value === 0 ? "0 s" : format.span(value * 1000));
export const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

const RATE = { scale: "rate", write: perSecond, axis: perSecond, size: 58 };
const COUNT = { scale: "count", write: count, axis: format.short, size: 58 };
const AGE = { scale: "age", write: age, axis: age, size: 74 };

// By view: [series of the server, label, colour, dash, how it is written].
export const VIEWS = {
  rates: ["Rates", [["entered", "in", "--in", [], RATE], ["left", "out", "--out", [5, 3], RATE], ["ready", "ready", "--ready", [1.5, 2.5], COUNT]]],
  states: ["States", [["ready", "ready", "--ready", [], COUNT], ["leased", "leased", "--in", [5, 3], COUNT], ["delayed", "delayed", "--quiet", [1.5, 2.5], COUNT]]],
  oldest: ["Oldest", [["oldest", "oldest ready", "--ready", [], AGE]]],
};

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options(width, lines) {
  const [ink, line] = [colour("--quiet"), colour("--line")];
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const kinds = [...new Set(lines.map((each) => each[4]))];
  const range = (u, least, most) => [0, Math.max(1, most * 1.1)];
  return {
    width, height: HIGH, pxAlign: 0,
    legend: { live: true },
    hooks: { ready: [latest], setCursor: [latest], setData: [latest] },
    cursor: { drag: { x: false, y: false }, points: { size: 5 } },
    scales: Object.fromEntries(kinds.map((kind) => [kind.scale, { range }])),
    axes: [
      { ...axis, size: 26, space: 90, values: (u, found) => found.map((each) => clock(each)) },
      ...kinds.map((kind, at) => ({
        ...axis, scale: kind.scale, size: kind.size, values: (u, found) => found.map((each) => kind.axis(each)),
        ...(at > 0 ? { side: 1, grid: { show: false } } : {}),
      })),
    ],
    series: [
      { label: "at", value: (u, found) => (found == null ? "–" : clock(found)) },
      ...lines.map(([, label, ink, dash, kind]) => ({
        label, scale: kind.scale, stroke: colour(ink), width: 1.5, dash, points: { show: false }, value: (u, found) => kind.write(found),
      })),
    ],
  };
}

// What uPlot draws: seconds, then a list for each line.
function rowsOf(series, lines) {
  const seconds = series.ready.map((_, at) => ((series.first + at) * series.every) / 1000);
  return [seconds, ...lines.map(([name]) => series[name])];
}

// The place of the first sample; the list begins with null where there was none yet.
export const firstSample = (series) => Math.max(0, series.ready.findIndex((each) => each !== null));
export const minutesOf = (series) => Math.round(((series.ready.length - firstSample(series)) * series.every) / 60000);

// Without a cursor the legend tells the latest values.
function latest(plot) {
  if (plot.cursor.idx == null && plot.data[0].length > 0) plot.setLegend({ idx: plot.data[0].length - 1 });
}

export function told(series, lines) {
  const most = ([name, label, , , kind]) => `${label} at most ${kind.write(Math.max(0, ...series[name].filter((each) => each !== null)))}`;
  return `The last ${minutesOf(series)} minutes: ${lines.map(most).join(", ")}`;
}

export function Chart({ series, view }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [turn, setTurn] = useState(0);
  const lines = VIEWS[view][1];
  useEffect(() => {
    const again = () => setTurn((count) => count + 1);
    addEventListener("spoolrack-theme", again);
    return () => removeEventListener("spoolrack-theme", again);
  }, []);
  useLayoutEffect(() => {
    const made = new globalThis.uPlot(options(box.current.clientWidth, lines), rowsOf(series, lines), box.current);
    plot.current = made;
    const seen = new ResizeObserver(() => made.setSize({ width: box.current.clientWidth, height: HIGH }));
    seen.observe(box.current);
    return () => { seen.disconnect(); made.destroy(); };
  }, [turn, view]);
  useLayoutEffect(() => { if (plot.current) plot.current.setData(rowsOf(series, lines)); }, [series]);
  return html`<div class="chart" role="img" aria-label=${told(series, lines)} ref=${box}></div>`;
}

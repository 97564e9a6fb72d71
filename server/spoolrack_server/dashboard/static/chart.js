// A queue's rates and its ready messages over the time that the page is open. The same numbers stand
// beside it as text, so that nothing is told by the picture alone.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm/standalone.module.js";
import * as format from "./format.js";

const HIGH = 194;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const clock = (seconds) => new Date(seconds * 1000).toTimeString().slice(0, 8);

function options(width) {
  const [ink, line] = [colour("--quiet"), colour("--line")];
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const per = (u, found) => (found == null ? "–" : `${format.rate(found)}/s`);
  return {
    width, height: HIGH, pxAlign: 0,
    legend: { live: true },
    cursor: { drag: { x: false, y: false }, points: { size: 5 } },
    scales: { rate: { range: (u, least, most) => [0, Math.max(1, most * 1.1)] }, ready: { range: (u, least, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { ...axis, size: 26, space: 90, values: (u, found) => found.map((each) => clock(each)) },
      { ...axis, scale: "rate", size: 58, values: (u, found) => found.map((each) => `${format.rate(each)}/s`) },
      { ...axis, scale: "ready", side: 1, size: 58, grid: { show: false }, values: (u, found) => found.map((each) => format.short(each)) },
    ],
    series: [
      { label: "at", value: (u, found) => (found == null ? "–" : clock(found)) },
      { label: "in", scale: "rate", stroke: colour("--in"), width: 1.5, points: { show: false }, value: per },
      { label: "out", scale: "rate", stroke: colour("--out"), width: 1.5, dash: [5, 3], points: { show: false }, value: per },
      { label: "ready", scale: "ready", stroke: colour("--ready"), width: 1.5, dash: [1.5, 2.5], points: { show: false }, value: (u, found) => (found == null ? "–" : format.number(found)) },
    ],
  };
}

export function Chart({ rows, label }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const again = () => setTurn((count) => count + 1);
    addEventListener("spoolrack-theme", again);
    return () => removeEventListener("spoolrack-theme", again);
  }, []);
  useLayoutEffect(() => {
    const made = new globalThis.uPlot(options(box.current.clientWidth), rows, box.current);
    plot.current = made;
    const seen = new ResizeObserver(() => made.setSize({ width: box.current.clientWidth, height: HIGH }));
    seen.observe(box.current);
    return () => { seen.disconnect(); made.destroy(); };
  }, [turn]);
  useLayoutEffect(() => { if (plot.current) plot.current.setData(rows); });
  return html`<div class="chart" role="img" aria-label=${label} ref=${box}></div>`;
}

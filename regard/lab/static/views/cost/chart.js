// A chart with two logarithmic axes as SVG: one line per series, rings for measured values, names at the ends of the lines.

import { s } from "../../kit/dom.js";
import { token } from "../../kit/colour.js";
import { count } from "./units.js";

const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

/** series: [{ name, label, colour, dash, values: [y or null for each length] }], points: [{ name, x, y }]. */
export function chart({ lengths, series, points, quantity, at, narrow, titles, mark }) {
  const size = narrow ? { width: 380, height: 340 } : { width: 860, height: 470 };
  const room = narrow ? { left: 54, right: 12, top: 26, bottom: 46 } : { left: 74, right: 170, top: 30, bottom: 54 };
  const values = [...series.flatMap((one) => one.values), ...points.map((one) => one.y)].filter((y) => y > 0);
  const log = (y) => Math.log(y) / Math.log(quantity.base);
  const [low, high] = values.length ? [Math.floor(log(Math.min(...values)) + 1e-9), Math.ceil(log(Math.max(...values)) - 1e-9)] : [0, 1];
  const top = high > low ? high : low + 1;
  const inner = { width: size.width - room.left - room.right, height: size.height - room.top - room.bottom };
  const [first, last] = [Math.log2(lengths[0]), Math.log2(lengths.at(-1))];
  const x = (length) => room.left + (inner.width * (Math.log2(length) - first)) / (last - first);
  const y = (value) => room.top + inner.height * (1 - (log(value) - low) / (top - low));
  const faint = token("--faint");
  const small = narrow ? 10.5 : 12;
  const text = (px, py, words, more = {}) => s("text", { x: px.toFixed(1), y: py.toFixed(1), fill: faint, "font-size": small, ...more }, words);

  const lines = [];
  const labels = [];
  const every = Math.ceil((top - low) / (narrow ? 7 : 9));
  for (let k = low; k <= top; k++) {
    const py = y(quantity.base ** k);
    lines.push(s("line", { x1: room.left, x2: size.width - room.right, y1: py, y2: py, stroke: token("--line") }));
    if ((k - low) % every === 0) lines.push(text(room.left - 8, py + 4, quantity.text(quantity.base ** k), { "text-anchor": "end" }));
  }
  lengths.forEach((length, i) => {
    lines.push(s("line", { x1: x(length), x2: x(length), y1: room.top, y2: size.height - room.bottom, stroke: token("--line"), "stroke-width": 0.7 }));
    if (!narrow || i % 3 === 0) lines.push(text(x(length), size.height - room.bottom + 18, count(length), { "text-anchor": "middle" }));
  });
  lines.push(text(room.left - 8, 15, titles.y, { "text-anchor": "start", x: 4, "font-weight": 600 }));
  lines.push(text(room.left + inner.width / 2, size.height - 8, titles.x, { "text-anchor": "middle", "font-weight": 600 }));
  if (mark && mark.length > lengths[0] && mark.length < lengths.at(-1)) {
    const px = x(mark.length);
    lines.push(s("line", { x1: px, x2: px, y1: room.top, y2: size.height - room.bottom, stroke: token("--strong-line"), "stroke-dasharray": "3 4" }));
    if (!narrow) labels.push(text(px + 6, size.height - room.bottom - 8, mark.text, { stroke: token("--surface"), "stroke-width": 4, "paint-order": "stroke" }));
  }
  if (at) lines.push(s("line", { class: "cursor", x1: x(at), x2: x(at), y1: room.top, y2: size.height - room.bottom, stroke: token("--accent"), "stroke-width": 1.6 }));

  const curves = series.map((one) => {
    const there = one.values.map((value, i) => (value > 0 ? [x(lengths[i]), y(value)] : null)).filter(Boolean);
    return s(
      "g",
      { class: "curve", "data-series": one.name },
      s("path", { d: there.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join(""), fill: "none", stroke: one.colour, "stroke-width": 2.4, "stroke-dasharray": one.dash, "stroke-linejoin": "round" }),
      at && one.values[lengths.indexOf(at)] > 0 ? s("circle", { cx: x(at).toFixed(1), cy: y(one.values[lengths.indexOf(at)]).toFixed(1), r: 4, fill: one.colour }) : null,
    );
  });
  const colours = new Map(series.map((one) => [one.name, one.colour]));
  const rings = points.filter((one) => colours.has(one.name)).map((one) => s("circle", { class: "measured", cx: x(one.x).toFixed(1), cy: y(one.y).toFixed(1), r: 5, fill: token("--surface"), stroke: colours.get(one.name), "stroke-width": 2.2 }));
  if (!narrow) for (const { one, py } of names(series, y)) labels.push(text(size.width - room.right + 10, py + 4, one.label, { fill: one.colour, "font-weight": 600, "font-size": 12.5 }));
  return {
    svg: s("svg", { viewBox: `0 0 ${size.width} ${size.height}`, class: "chart", "font-family": FONT }, lines, curves, rings, labels),
    size,
    /** Return the sequence length nearest to a position in the picture. */
    nearest: (px) => lengths.reduce((best, length) => (Math.abs(x(length) - px) < Math.abs(x(best) - px) ? length : best)),
  };
}

/** Names at the ends of the lines, moved apart so that they do not overlap. */
function names(series, y) {
  const step = 17;
  const ends = series.map((one) => ({ one, py: y(one.values.findLast((value) => value > 0) ?? 1) })).filter(({ one }) => one.values.some((value) => value > 0));
  ends.sort((a, b) => a.py - b.py);
  for (let i = 1; i < ends.length; i++) ends[i].py = Math.max(ends[i].py, ends[i - 1].py + step);
  return ends;
}

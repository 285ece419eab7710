// A plot of a claim as SVG: lines with the interval over seeds as a band, bars with it as a whisker. Lines differ in
// dash and marker as well as in colour. A point is [x, mean, low, high]; low and high are null for one seed.

import { token } from "../../kit/colour.js";
import { freshId, s } from "../../kit/dom.js";
import { FONT, lineWidth, lowered, wrapped } from "../../kit/words.js";

const DASHES = [null, "7 3", "8 3 2 3", "2 3", "12 3", "9 2 2 2 2 2", "1 2"];
const SMALL = 11.5;

export const seriesColour = (i) => token(`--series-${(i % 7) + 1}`);

/** A marker around the origin; each series has its own shape. */
function marker(i, colour) {
  const shapes = [
    () => s("circle", { r: 3.6 }),
    () => s("rect", { x: -3.2, y: -3.2, width: 6.4, height: 6.4 }),
    () => s("path", { d: "M0-4.3 4 3H-4Z" }),
    () => s("path", { d: "M0-4.4 4.4 0 0 4.4-4.4 0Z" }),
    () => s("path", { d: "M0 4.3 4-3H-4Z" }),
    () => s("path", { d: "M-1.5-4.2h3v2.7h2.7v3h-2.7v2.7h-3v-2.7h-2.7v-3h2.7Z" }),
    () => s("path", { d: "M-4-2.2-2.2-4 0-1.8 2.2-4 4-2.2 1.8 0 4 2.2 2.2 4 0 1.8-2.2 4-4 2.2-1.8 0Z" }),
  ];
  const shape = shapes[i % 7]();
  shape.setAttribute("fill", colour);
  return shape;
}

/** Format a number for an axis: 0.25, 1e-4, 20 k, 5 M. */
export function short(x) {
  const size = Math.abs(x);
  for (const [least, by, sign] of [[1e9, 1e9, " G"], [1e6, 1e6, " M"], [1e4, 1e3, " k"]]) if (size >= least) return `${Number((x / by).toPrecision(3))}${sign}`;
  if (Number.isInteger(x)) return String(x).replace("-", "−");
  if (size >= 0.001) return String(Number(x.toPrecision(3))).replace("-", "−");
  return x.toExponential(0).replace("-", "−");
}

/** Text of a mark: a share in per cent, other numbers with three significant digits, and the interval. */
export function reading(plot, [, mean, low, high]) {
  const text = (x) => (plot.percent ? (100 * x).toFixed(1) : short(x));
  const sign = plot.percent ? " %" : "";
  return text(mean) + sign + (low === null ? "" : ` (${text(low)} … ${text(high)})`);
}

/** Legend of the series, in as many rows as needed: { group, height }. */
export function key(plot, translate, width) {
  const group = s("g");
  let [x, y] = [0, 11];
  plot.series.forEach((one, i) => {
    const name = translate(one.name);
    const wide = 30 + lineWidth(name, SMALL) + 14;
    if (x > 0 && x + wide - 14 > width) [x, y] = [0, y + 17];
    const sample =
      plot.kind === "bars"
        ? s("rect", { x, y: y - 9, width: 22, height: 10, rx: 2, fill: seriesColour(i) })
        : [s("line", { x1: x, x2: x + 24, y1: y - 4, y2: y - 4, stroke: seriesColour(i), "stroke-width": 2, "stroke-dasharray": DASHES[i % 7] }), s("g", { transform: `translate(${x + 12} ${y - 4})` }, marker(i, seriesColour(i)))];
    group.append(...[sample].flat(), s("text", { x: x + 29, y, "font-size": SMALL, fill: token("--ink") }, lowered(name)));
    x += wide;
  });
  return { group, height: y + 7 };
}

/** Draw a plot `width` pixels wide; `translate` returns a text in the page's language, `read(text)` is called with the mark under the pointer. */
export function drawPlot(plot, { width, translate, keyed = true, read = null }) {
  const [ink, faint, line] = [token("--ink"), token("--faint"), token("--line")];
  const text = (x, y, words, more = {}) => s("text", { x: x.toFixed(1), y: y.toFixed(1), "font-size": SMALL, fill: faint, ...more }, lowered(words));
  const parts = [];
  let top = 4;
  if (translate(plot.title)) {
    for (const row of wrapped(translate(plot.title), width, 12.5)) {
      top += 13;
      parts.push(text(0, top, row, { fill: ink, "font-size": 12.5, "font-weight": 650 }));
      top += 3;
    }
    top += 7;
  }
  if (keyed && plot.series.length > 1) {
    const made = key(plot, translate, width);
    made.group.setAttribute("transform", `translate(0 ${top})`);
    parts.push(made.group);
    top += made.height + 4;
  }
  if (translate(plot.y_label)) {
    parts.push(text(0, top + 10, translate(plot.y_label)));
    top += 16;
  }
  top += 8;
  const body = plot.horizontal ? lying : plot.kind === "bars" ? bars : lines;
  const { height, marks } = body(plot, { width, top, translate, text, ink, faint, line, read });
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot", "font-family": FONT }, parts, marks), width, height };
}

// ---- vertical axis --------------------------------------------------------------------------------------------------

/** The vertical scale from numbers to pixels, with its ticks: { y, ticks, label }. */
function heights(plot, top, bottom) {
  const points = plot.series.flatMap((one) => one.points);
  const means = [...points.map((one) => one[1]), ...plot.reference_lines.map((one) => one.value)].filter((x) => x !== null);
  if (plot.percent) return { y: (x) => bottom - (bottom - top) * Math.min(Math.max(x, -0.05), 1.05), ticks: [0, 0.25, 0.5, 0.75, 1], label: (x) => `${100 * x} %` };
  const ends = points.flatMap((one) => [one[2], one[3]]).filter((x) => x !== null);
  if (plot.log.includes("y")) {
    const some = means.filter((x) => x > 0).map(Math.log10);
    let [low, high] = [Math.min(...some), Math.max(...some)];
    const room = Math.max(0.15, 0.08 * (high - low));
    for (const end of ends) if (end > 0) [low, high] = [Math.min(low, Math.max(Math.log10(end), low - room)), Math.max(high, Math.min(Math.log10(end), high + room))];
    [low, high] = [low - room, high + room];
    const fine = high - low < 2 ? [1, 2, 5] : [1];
    const ticks = [];
    const every = Math.max(1, Math.ceil((high - low) / 6));
    for (let k = Math.floor(low); k <= high; k++) if (k % every === 0) for (const by of fine) if (Math.log10(by) + k >= low && Math.log10(by) + k <= high) ticks.push(by * 10 ** k);
    return { y: (x) => bottom - ((bottom - top) * (Math.log10(Math.max(x, 1e-300)) - low)) / (high - low), ticks, label: short };
  }
  let [low, high] = [Math.min(...means), Math.max(...means)];
  const room = 0.5 * (high - Math.min(low, 0) || 1); // an interval may be far wider than the range of the means
  for (const end of ends) [low, high] = [Math.min(low, Math.max(end, low - room)), Math.max(high, Math.min(end, high + room))];
  if (Math.min(...means) >= 0) low = 0;
  const step = niceStep((high - low || 1) / 5);
  [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  if (high <= low) high = low + step;
  const ticks = Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);
  return { y: (x) => bottom - ((bottom - top) * (x - low)) / (high - low), ticks, label: short };
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].find((by) => by * power >= rough) * power;
}

/** Grid lines with their numbers, reference levels, and the area of the marks. */
function ground(plot, at, { width, top, translate, text, faint, line }) {
  const { y, ticks, label } = heights(plot, top, at.bottom);
  const left = Math.max(...ticks.map((tick) => lineWidth(label(tick), SMALL))) + 9;
  const [below, above] = [[], []];
  for (const tick of ticks) {
    below.push(s("line", { x1: left, x2: width, y1: y(tick), y2: y(tick), stroke: line }));
    below.push(text(left - 7, y(tick) + 4, label(tick), { "text-anchor": "end" }));
  }
  const labelled = new Set();
  const levels = (place) => {
    for (const one of plot.reference_lines) {
      const [from, to] = one.category === null ? [left, width] : place(one.category);
      below.push(s("line", { x1: from, x2: to, y1: y(one.value), y2: y(one.value), stroke: faint, "stroke-dasharray": "3 3" }));
      if (one.category === null && !labelled.has(one.value)) above.push(text(width - 2, y(one.value) - 5, translate(one.name), { "text-anchor": "end", stroke: token("--surface"), "stroke-width": 3.5, "paint-order": "stroke" }));
      labelled.add(one.value);
    }
  };
  const clip = freshId("clip");
  below.push(s("clipPath", { id: clip }, s("rect", { x: left - 6, y: top - 7, width: width - left + 12, height: at.bottom - top + 13 })));
  return { y, left, below, above, levels, clip: `url(#${clip})` };
}

/** Make a mark report its text while the pointer is over it. */
function telling(element, words, read) {
  element.append(s("title", {}, words));
  if (read) element.addEventListener("pointerenter", () => read(words));
  return element;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

function lines(plot, frame) {
  const { width, top, translate, text, faint, read } = frame;
  const wide = width > 520;
  const bottom = top + (wide ? 250 : 190);
  const height = bottom + 22 + (translate(plot.x_label) ? 17 : 0);
  const { y, left, below, above, levels, clip } = ground(plot, { bottom }, frame);
  const every = [...new Set(plot.series.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
  const to = plot.log.includes("x") ? Math.log2 : (x) => x;
  const [first, last] = [to(every[0]), to(every.at(-1))];
  const [from, until] = [left + 12, width - 12];
  const x = (at) => (last > first ? from + ((until - from) * (to(at) - first)) / (last - first) : (from + until) / 2);
  levels(() => [left, width]);
  let free = -Infinity;
  for (const at of along(every, plot)) {
    const half = lineWidth(short(at), SMALL) / 2;
    if (x(at) - half < free) continue;
    below.push(text(x(at), bottom + 17, short(at), { "text-anchor": "middle" }));
    free = x(at) + half + 7;
  }
  if (plot.vertical_line !== null) below.push(s("line", { x1: x(plot.vertical_line), x2: x(plot.vertical_line), y1: top, y2: bottom, stroke: faint, "stroke-dasharray": "3 3" }));
  if (translate(plot.x_label)) above.push(text((from + until) / 2, height - 4, translate(plot.x_label), { "text-anchor": "middle" }));
  const [bands, drawn] = [[], []];
  plot.series.forEach((one, i) => {
    const colour = seriesColour(i);
    const there = one.points.filter((point) => point[1] !== null);
    const way = (points) => points.map(([px, py], n) => `${n ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    if (there.length > 1 && there.every((point) => point[2] !== null)) {
      const edge = (value, at) => [x(at), Math.max(top - 400, Math.min(bottom + 400, y(value)))];
      const around = [...there.map((point) => edge(point[3], point[0])), ...there.map((point) => edge(point[2], point[0])).reverse()];
      bands.push(s("path", { class: "band", d: `${way(around)}Z`, fill: colour, opacity: 0.14 }));
    }
    drawn.push(
      s(
        "g",
        { class: "series" },
        s("path", { d: way(there.map((point) => [x(point[0]), y(point[1])])), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHES[i % 7], "stroke-linejoin": "round" }),
        there.map((point) => {
          const words = `${translate(one.name)} · ${short(point[0])}: ${reading(plot, point)}`;
          const spot = s("g", { class: "mark", transform: `translate(${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)})` }, s("circle", { r: 11, fill: "transparent" }), marker(i, colour));
          return telling(spot, words, read);
        }),
      ),
    );
  });
  return { height, marks: [below, s("g", { "clip-path": clip }, bands), drawn, above] };
}

/** Positions of the numbers on the horizontal axis: the points themselves if there are few, else round numbers. */
function along(every, plot) {
  if (plot.log.includes("x") || every.length <= 9) return every;
  const [low, high] = [every[0], every.at(-1)];
  const step = niceStep((high - low) / 6);
  return Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, i) => (Math.ceil(low / step) + i) * step);
}

// ---- bars -----------------------------------------------------------------------------------------------------------

function bars(plot, frame) {
  const { width, top, translate, text, ink, read } = frame;
  const places = Object.keys(plot.categories);
  const bottom = top + (width > 520 ? 250 : 190);
  const { y, left, below, above, levels, clip } = ground(plot, { bottom }, frame);
  const each = (width - left) / places.length;
  const names = places.map((place) => wrapped(translate(plot.categories[place]), each - 6, SMALL));
  const deep = Math.max(...names.map((rows) => rows.length));
  const height = bottom + 7 + 14 * deep + (translate(plot.x_label) ? 19 : 3);
  const middle = (place) => left + each * (places.indexOf(place) + 0.5);
  const wide = Math.min(84, (0.8 * each) / plot.series.length);
  levels((place) => [middle(place) - 0.45 * each, middle(place) + 0.45 * each]);
  names.forEach((rows, i) => rows.forEach((row, n) => above.push(text(left + each * (i + 0.5), bottom + 17 + 14 * n, row, { "text-anchor": "middle", fill: ink }))));
  if (translate(plot.x_label)) above.push(text((left + width) / 2, height - 4, translate(plot.x_label), { "text-anchor": "middle" }));
  const [drawn, whiskers] = [[], []];
  plot.series.forEach((one, i) => {
    const away = (i - (plot.series.length - 1) / 2) * wide;
    for (const point of one.points) {
      const [px, py] = [middle(point[0]) + away, y(point[1])];
      const words = `${translate(one.name)} · ${translate(plot.categories[point[0]])}: ${reading(plot, point)}`;
      const bar = s("rect", { class: "bar", x: px - 0.46 * wide, y: Math.min(py, bottom - 1), width: 0.92 * wide, height: Math.max(1, bottom - py), rx: Math.min(3, wide / 6), fill: seriesColour(i) });
      drawn.push(telling(bar, words, read));
      if (point[2] !== null) whiskers.push(whisker([px, y(point[2])], [px, y(point[3])], ink));
    }
  });
  return { height, marks: [below, s("g", { "clip-path": clip }, drawn, whiskers), above] };
}

/** Horizontal bars, each below its name. */
function lying(plot, { width, top, translate, text, ink, faint, line, read }) {
  const places = Object.keys(plot.categories);
  const points = plot.series[0].points;
  const most = plot.percent ? 1 : Math.max(...points.map((one) => Math.max(one[1], Math.min(one[3] ?? 0, 2 * one[1]))));
  const values = points.map((point) => reading(plot, point).split(" (")[0]);
  const right = width - 8;
  const x = (value) => (right * Math.max(0, Math.min(value, 1.02 * most))) / most;
  const marks = [];
  points.forEach((point, i) => {
    const y = top + 34 * places.indexOf(point[0]);
    marks.push(text(0, y + 10, translate(plot.categories[point[0]]), { fill: ink }), text(right, y + 10, values[i], { "text-anchor": "end", fill: faint }));
    marks.push(s("rect", { x: 0, y: y + 15, width: right, height: 11, rx: 3, fill: line, opacity: 0.6 }));
    const bar = s("rect", { class: "bar", x: 0, y: y + 15, width: Math.max(1, x(point[1])), height: 11, rx: 3, fill: seriesColour(0) });
    marks.push(telling(bar, `${translate(plot.categories[point[0]])}: ${reading(plot, point)}`, read));
    if (point[2] !== null) marks.push(whisker([x(point[2]), y + 20.5], [x(point[3]), y + 20.5], ink));
  });
  return { height: top + 34 * places.length + 2, marks };
}

function whisker([x1, y1], [x2, y2], ink) {
  const cap = ([x, y]) => (x1 === x2 ? s("line", { x1: x - 3.5, x2: x + 3.5, y1: y, y2: y }) : s("line", { x1: x, x2: x, y1: y - 3.5, y2: y + 3.5 }));
  return s("g", { class: "whisker", stroke: ink, "stroke-width": 1.3, "pointer-events": "none" }, s("line", { x1, y1, x2, y2 }), cap([x1, y1]), cap([x2, y2]));
}

// The drawing of a claim for slides: the verdict, the plots, and the machine of the measurement.

import { token } from "../../kit/colour.js";
import { s } from "../../kit/dom.js";
import { drawPlot } from "./plot.js";
import { FONT, lineWidth, lowered, wrapped } from "../../kit/words.js";

const INNER = 936; // width

/** `lines` are [text, { size, weight, fill, after }] from the top; `chart` is optional; `foot` is drawn at the bottom. */
export function sheet({ lines, chart, foot, translate }) {
  const marks = [];
  let y = 0;
  const write = (text, { size = 14, weight = 400, fill = token("--ink"), after = 8 } = {}) => {
    for (const row of wrapped(text, INNER, size, weight)) {
      y += 1.4 * size;
      marks.push(s("text", { y: y.toFixed(1), "font-size": size, "font-weight": weight, fill }, lowered(row)));
    }
    y += after;
  };
  lines.forEach(([text, how]) => write(text, how));
  y += 8;
  for (const row of chart ? rowsOf(chart.panels) : []) {
    const wide = (INNER - 28 * (row.length - 1)) / row.length;
    const drawn = row.map((panel) => (panel.kind === "table" ? drawTable(panel, translate) : drawPlot(panel, { width: wide, translate })));
    drawn.forEach((one, i) => {
      one.svg.setAttribute("x", i * (wide + 28));
      one.svg.setAttribute("y", y);
      one.svg.removeAttribute("class");
      marks.push(one.svg);
    });
    y += Math.max(...drawn.map((one) => one.height)) + 20;
  }
  foot.forEach((text) => write(text, { size: 11.5, fill: token("--faint"), after: 1 }));
  return s("svg", { viewBox: `0 0 ${INNER} ${Math.ceil(y + 4)}`, "font-family": FONT }, marks);
}

/** Panels in rows of at most three; four panels are arranged two by two. */
function rowsOf(panels) {
  const each = panels.length === 4 ? 2 : 3;
  return Array.from({ length: Math.ceil(panels.length / each) }, (_, i) => panels.slice(i * each, (i + 1) * each));
}

function drawTable(table, translate) {
  const size = 12;
  const cells = [table.columns, ...table.rows].map((row) => row.map(translate));
  const longest = cells[0].map((_, j) => Math.max(...cells.map((row) => lineWidth(row[j], size, 600))) + 18);
  const whole = longest.reduce((a, b) => a + b, 0);
  const wide = longest.map((x) => (whole > INNER ? (x * INNER) / whole : x));
  const starts = wide.map((_, j) => wide.slice(0, j).reduce((a, b) => a + b, 0));
  const marks = [];
  let y = 0;
  cells.forEach((row, i) => {
    const written = row.map((text, j) => wrapped(text, wide[j] - 14, size, i ? 400 : 600));
    const deep = Math.max(1, ...written.map((rows) => rows.length));
    written.forEach((rows, j) => rows.forEach((one, n) => marks.push(s("text", { x: starts[j].toFixed(1), y: y + 17 + 16 * n, "font-size": size, "font-weight": i ? 400 : 600, fill: token(i ? "--ink" : "--faint") }, one))));
    y += 16 * deep + 10;
    marks.push(s("line", { x1: 0, x2: INNER, y1: y, y2: y, stroke: token("--line") }));
  });
  return { svg: s("svg", { width: INNER, height: y + 2 }, marks), height: y + 2 };
}

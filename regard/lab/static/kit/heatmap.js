// The heatmap of regard.pictures (regard/pictures/page/heatmap.js, which lists all options) in the lab's colours and texts.
//
// heatmap({ values, rows, columns, kind, most, label, role, width, height, numbers, tell, … })
//   kind, most  which colours, and the value of the full colour: see palette in colour.js
//   width, height   in pixels; height may be "auto": as tall as the cells need, `tallest` at most
//   numbers     write the values into the cells where they fit
//   tell        (i, j) → text that a screen reader reads for a cell
// → { element, canvas, mark({ cell, rows, columns }), update({ values }), draw(), whole(), zoom(factor), tell() }

import { heatmap as drawHeatmap } from "../pictures/heatmap.js";
import { colourOf, palette, token } from "./colour.js";
import { h } from "./dom.js";
import { number } from "./text.js";

export function heatmap({ kind = "weights", most = 1, label, role = "img", width, height = 320, numbers, tell, onlook = () => {}, ...spec }) {
  let { values } = spec;
  const reader = h("output", { class: "visually-hidden", "aria-live": "polite" });
  const canvas = h("canvas", { class: "heatmap-canvas", tabindex: 0, role, "aria-label": label });
  canvas.style.height = height === "auto" ? "200px" : `${height}px`;
  if (width) canvas.style.width = `${width}px`;
  const text = tell ?? ((i, j) => `${spec.rows[i]} → ${spec.columns[j]}: ${number(values[i][j], 4)}`);
  const announce = (i, j) => (reader.textContent = text(i, j));
  const map = drawHeatmap({
    ...spec,
    canvas,
    height,
    token,
    palette: () => palette(kind, most),
    text: numbers && ((i, j, size) => number(values[i][j], size >= 52 ? 3 : 2)),
    onlook(i, j, byKey) {
      if (byKey) announce(i, j);
      onlook(i, j);
    },
  });
  return {
    ...map,
    element: h("div", { class: "heatmap" }, canvas, reader),
    tell: () => announce(...map.cell()),
    update(next) {
      ({ values } = next);
      map.update(next);
    },
  };
}

/** A small picture of a matrix, without names or keys. */
export function thumbnail(values, { kind = "weights", most = 1, size = 44, label } = {}) {
  const canvas = h("canvas", { class: "thumbnail", width: values[0]?.length || 1, height: values.length || 1 });
  if (label) {
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
  } else canvas.setAttribute("aria-hidden", "true");
  canvas.style.width = canvas.style.height = `${size}px`;
  const paint = canvas.getContext("2d");
  const image = paint.createImageData(canvas.width, canvas.height);
  values.forEach((row, i) =>
    row.forEach((x, j) => {
      const colour = colourOf(x, kind, most);
      if (colour) image.data.set([...colour, 255], 4 * (i * canvas.width + j));
    }),
  );
  paint.putImageData(image, 0, 0);
  return canvas;
}

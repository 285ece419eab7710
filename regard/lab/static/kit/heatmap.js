// Many numbers as colours on a canvas: one pixel a cell, drawn once, then scaled, so that panning 512 × 512 is smooth.
//
// heatmap({ values, rows, columns, kind, most, label, width, height, axes, onlook, onleave, onpick })
// → { element, canvas, mark({ cell, rows, columns }), update(values), whole() }
// Pointer: hover looks, drag moves, wheel zooms. Keys: arrows move the cell (Shift: by ten), + and − zoom, 0 shows all.

import { colourOf, token } from "./colour.js";
import { h } from "./dom.js";
import { number } from "./text.js";

export function heatmap(given) {
  const spec = { kind: "weights", most: 1, height: 320, axes: true, zoom: true, onlook() {}, onleave() {}, onpick() {}, ...given };
  const L = spec.rows.length;
  const S = spec.columns.length;
  const said = h("output", { class: "visually-hidden", "aria-live": "polite" });
  const canvas = h("canvas", { class: "heatmap-canvas", tabindex: 0, role: "img", "aria-label": spec.label });
  canvas.style.height = `${spec.height}px`;
  if (spec.width) canvas.style.width = `${spec.width}px`;
  const element = h("div", { class: "heatmap" }, canvas, said);
  const picture = document.createElement("canvas");
  picture.width = S;
  picture.height = L;
  let values = spec.values;
  let cell = [0, 0];
  let marks = {};
  let view = null; // left, top in cells; size of a cell in pixels
  let frame = 0;

  function colour() {
    const paint = picture.getContext("2d");
    const image = paint.createImageData(S, L);
    for (let i = 0; i < L; i++) {
      const row = values[i];
      for (let j = 0; j < S; j++) {
        const found = colourOf(row[j], spec.kind, spec.most);
        const at = 4 * (i * S + j);
        if (found === null) continue;
        image.data[at] = found[0];
        image.data[at + 1] = found[1];
        image.data[at + 2] = found[2];
        image.data[at + 3] = 255;
      }
    }
    paint.putImageData(image, 0, 0);
  }

  const names = () => (spec.axes ? { left: 76, top: 22 } : { left: 0, top: 0 });

  function fit() {
    const { left, top } = names();
    const width = Math.max(1, canvas.clientWidth - left);
    const height = Math.max(1, canvas.clientHeight - top);
    return Math.min(width / S, height / L);
  }

  function whole() {
    view = { left: 0, top: 0, cell: fit() };
    draw();
  }

  function clamp() {
    const { left, top } = names();
    const across = (canvas.clientWidth - left) / view.cell;
    const down = (canvas.clientHeight - top) / view.cell;
    view.left = Math.min(Math.max(0, view.left), Math.max(0, S - across));
    view.top = Math.min(Math.max(0, view.top), Math.max(0, L - down));
  }

  function draw() {
    if (!frame) frame = requestAnimationFrame(now);
  }

  function now() {
    frame = 0;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    view ??= { left: 0, top: 0, cell: fit() };
    clamp();
    const { left, top } = names();
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.imageSmoothingEnabled = false;
    const across = Math.min(S - view.left, (width - left) / view.cell);
    const down = Math.min(L - view.top, (height - top) / view.cell);
    paint.drawImage(picture, view.left, view.top, across, down, left, top, across * view.cell, down * view.cell);
    paint.save();
    paint.beginPath();
    paint.rect(left, top, width - left, height - top);
    paint.clip();
    paint.strokeStyle = token("--accent");
    const x = (j) => left + (j - view.left) * view.cell;
    const y = (i) => top + (i - view.top) * view.cell;
    paint.lineWidth = 1.5;
    for (const i of marks.rows ?? []) paint.strokeRect(x(0), y(i), S * view.cell, view.cell);
    for (const j of marks.columns ?? []) paint.strokeRect(x(j), y(0), view.cell, L * view.cell);
    if (marks.cell) {
      const [i, j] = marks.cell;
      paint.lineWidth = 2.5;
      paint.strokeRect(x(j) - 1, y(i) - 1, view.cell + 2, view.cell + 2);
    }
    paint.restore();
    if (spec.axes) axes(paint, width, height);
    spec.ondraw?.();
  }

  function axes(paint, width, height) {
    const { left, top } = names();
    paint.fillStyle = token("--faint");
    paint.font = `12px ${getComputedStyle(canvas).fontFamily}`;
    const every = Math.max(1, Math.ceil(15 / view.cell));
    paint.textAlign = "right";
    paint.textBaseline = "middle";
    for (let i = Math.ceil(view.top / every) * every; i < L; i += every) {
      const y = top + (i + 0.5 - view.top) * view.cell;
      if (y > height) break;
      paint.fillText(short(spec.rows[i], 10), left - 6, y);
    }
    paint.textAlign = "center";
    const wide = Math.max(1, Math.ceil(46 / view.cell));
    for (let j = Math.ceil(view.left / wide) * wide; j < S; j += wide) {
      const x = left + (j + 0.5 - view.left) * view.cell;
      if (x > width) break;
      paint.fillText(short(spec.columns[j], 6), x, top / 2);
    }
  }

  const short = (name, longest) => (name.length > longest ? name.slice(0, longest - 1) + "…" : name);

  function placeOf(event) {
    const box = canvas.getBoundingClientRect();
    const { left, top } = names();
    const j = Math.floor((event.clientX - box.left - left) / view.cell + view.left);
    const i = Math.floor((event.clientY - box.top - top) / view.cell + view.top);
    return i >= 0 && j >= 0 && i < L && j < S && event.clientX - box.left >= left && event.clientY - box.top >= top ? [i, j] : null;
  }

  function look(i, j, aloud = false) {
    cell = [i, j];
    marks = { ...marks, cell };
    if (aloud) said.textContent = `${spec.rows[i]} → ${spec.columns[j]}: ${number(values[i][j], 4)}`;
    spec.onlook(i, j);
    draw();
  }

  function zoom(factor, x, y) {
    const { left, top } = names();
    const smallest = fit();
    const next = Math.min(Math.max(view.cell * factor, smallest), Math.max(64, smallest));
    const column = view.left + (x - left) / view.cell;
    const row = view.top + (y - top) / view.cell;
    view = { cell: next, left: column - (x - left) / next, top: row - (y - top) / next };
    draw();
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!view) return;
    if (drag && spec.zoom) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (drag.moved || Math.hypot(dx, dy) > 4) {
        view.left -= dx / view.cell;
        view.top -= dy / view.cell;
        drag = { x: event.clientX, y: event.clientY, moved: true };
        draw();
        return;
      }
    }
    const at = placeOf(event);
    if (at && (at[0] !== cell[0] || at[1] !== cell[1] || !marks.cell)) look(...at);
  });
  canvas.addEventListener("pointerup", (event) => {
    const at = view && !drag?.moved && placeOf(event);
    drag = null;
    if (at) {
      look(...at);
      spec.onpick(...at);
    }
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => spec.onleave());
  if (spec.zoom) {
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.shiftKey && view.cell <= fit() * 1.001 && event.deltaY > 0) return; // let the page scroll
        event.preventDefault();
        const box = canvas.getBoundingClientRect();
        zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
      },
      { passive: false },
    );
  }
  canvas.addEventListener("keydown", (event) => {
    let [i, j] = cell;
    const by = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowUp") i -= by;
    else if (event.key === "ArrowDown") i += by;
    else if (event.key === "ArrowLeft") j -= by;
    else if (event.key === "ArrowRight") j += by;
    else if (spec.zoom && (event.key === "+" || event.key === "=")) zoom(1.5, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (spec.zoom && event.key === "-") zoom(1 / 1.5, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (spec.zoom && event.key === "0") whole();
    else if (event.key === "Enter") spec.onpick(i, j);
    else return;
    event.preventDefault();
    event.stopPropagation();
    i = Math.min(Math.max(0, i), L - 1);
    j = Math.min(Math.max(0, j), S - 1);
    const { left, top } = names();
    const across = (canvas.clientWidth - left) / view.cell;
    const down = (canvas.clientHeight - top) / view.cell;
    if (j < view.left) view.left = j;
    if (i < view.top) view.top = i;
    if (j + 1 > view.left + across) view.left = j + 1 - across;
    if (i + 1 > view.top + down) view.top = i + 1 - down;
    if (event.key.startsWith("Arrow")) look(i, j, true);
  });

  colour();
  new ResizeObserver(() => {
    view = null;
    draw();
  }).observe(canvas);
  return {
    element,
    canvas,
    whole,
    mark(wanted) {
      marks = wanted;
      if (wanted.cell) cell = wanted.cell;
      draw();
    },
    update(next) {
      values = next;
      colour();
      draw();
    },
    repaint() {
      colour();
      draw();
    },
  };
}

/** A small picture of a matrix, without axes or keys. */
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
      const found = colourOf(x, kind, most);
      if (found) image.data.set([...found, 255], 4 * (i * canvas.width + j));
    }),
  );
  paint.putImageData(image, 0, 0);
  return canvas;
}

// Many numbers as colours on a canvas: one pixel a cell, drawn once, then scaled, so that panning 512 × 512 is smooth.
//
// heatmap({ values, rows, columns, kind, most, label, width, height, axes, zoom, onlook, onleave, onpick })
//   height    in pixels; or "auto": as tall as the cells need, `tallest` at most
//   numbers   the values are written into cells that have room for them
//   hidden    (i, j) → true where a mask hides the pair: hatched
//   across    i → words that stand across a whole row, such as that it sees nothing
//   tell      (i, j) → what a screen reader says of a cell
//   pen       () → whether a drag paints instead of moving; onpaint(cells, "begin" | "go" | "end") hears of it
// → { element, canvas, mark({ cell, rows, columns }), update(values), whole(), zoom(factor), at(i, j) }
// Pointer: hover looks, drag moves, wheel zooms. Keys: arrows move the cell (Shift: by ten), + and − zoom, 0 shows all,
// Enter and space pick, or paint where there is something to paint.

import { colourOf, inkOn, token } from "./colour.js";
import { h } from "./dom.js";
import { number } from "./text.js";

const LARGEST = 96; // pixels of a cell

export function heatmap(given) {
  const spec = { kind: "weights", most: 1, height: 320, tallest: 620, axes: true, zoom: true, pen: () => false, onlook() {}, onleave() {}, onpick() {}, ...given };
  const L = spec.rows.length;
  const S = spec.columns.length;
  const said = h("output", { class: "visually-hidden", "aria-live": "polite" });
  const canvas = h("canvas", { class: "heatmap-canvas", tabindex: 0, role: spec.role ?? "img", "aria-label": spec.label });
  const auto = spec.height === "auto";
  canvas.style.height = auto ? "200px" : `${spec.height}px`;
  if (spec.width) canvas.style.width = `${spec.width}px`;
  const element = h("div", { class: "heatmap" }, canvas, said);
  const picture = document.createElement("canvas");
  picture.width = S;
  picture.height = L;
  let values = spec.values;
  let cell = [0, 0];
  let marks = {};
  let view = null; // left, top in cells; size of a cell in pixels
  let margins = null;
  let hatch = null;
  let frame = 0;

  const hides = (i, j) => Boolean(spec.hidden?.(i, j));
  const tell = spec.tell ?? ((i, j) => `${spec.rows[i]} → ${spec.columns[j]}: ${number(values[i][j], 4)}`);
  const short = (name, longest) => (name.length > longest ? name.slice(0, longest - 1) + "…" : name);

  function colour() {
    const paint = picture.getContext("2d");
    const image = paint.createImageData(S, L);
    for (let i = 0; i < L; i++) {
      const row = values[i];
      for (let j = 0; j < S; j++) {
        const found = hides(i, j) ? null : colourOf(row[j], spec.kind, spec.most);
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

  // ---- how large, and which part ------------------------------------------------------------------------------

  const font = () => `12.5px ${getComputedStyle(canvas).fontFamily}`;
  const rowName = (i) => short(spec.rows[i], 12);
  const columnName = (j) => short(spec.columns[j], 9);

  /** Room for the names: upright where the columns are wide enough, else slanted. */
  function names() {
    if (!spec.axes) return { left: 0, top: 0, right: 0, slanted: false };
    if (margins) return margins;
    const paint = canvas.getContext("2d");
    paint.font = font();
    const longest = (names, name) => Math.max(...names.map((_, i) => paint.measureText(name(i)).width), 8);
    const left = Math.ceil(longest(spec.rows, rowName)) + 10;
    const wide = longest(spec.columns, columnName);
    const slanted = wide + 6 > (canvas.clientWidth - left) / S;
    const rise = Math.ceil(wide * 0.71);
    margins = slanted ? { left, top: rise + 16, right: Math.min(rise, 40), slanted } : { left, top: 24, right: 0, slanted };
    return margins;
  }

  function fit() {
    const { left, top, right } = names();
    const width = Math.max(1, canvas.clientWidth - left - right);
    const height = Math.max(1, (auto ? spec.tallest : canvas.clientHeight) - top);
    return Math.min(width / S, height / L, Math.max(LARGEST, 1));
  }

  function resized() {
    view = null;
    margins = null;
    if (auto && canvas.clientWidth) canvas.style.height = `${Math.ceil(names().top + fit() * L) + 1}px`;
    draw();
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

  // ---- drawing --------------------------------------------------------------------------------------------------

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
    // A finger moves the map once there is something to move, and paints while the pen is out; else the page scrolls.
    canvas.style.touchAction = spec.pen() || (spec.zoom && view.cell > 1.01 * fit()) ? "none" : "pan-y";
    const { left, top } = names();
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    paint.imageSmoothingEnabled = false;
    const across = Math.min(S - view.left, (width - left) / view.cell);
    const down = Math.min(L - view.top, (height - top) / view.cell);
    paint.fillStyle = token("--raised");
    paint.fillRect(left, top, across * view.cell, down * view.cell);
    paint.drawImage(picture, view.left, view.top, across, down, left, top, across * view.cell, down * view.cell);
    paint.save();
    paint.beginPath();
    paint.rect(left, top, width - left, height - top);
    paint.clip();
    const x = (j) => left + (j - view.left) * view.cell;
    const y = (i) => top + (i - view.top) * view.cell;
    inside(paint, x, y, {
      from: [Math.floor(view.top), Math.floor(view.left)],
      to: [Math.min(L, Math.ceil(view.top + down)), Math.min(S, Math.ceil(view.left + across))],
    });
    paint.strokeStyle = token("--accent");
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

  /** Hatching, gaps, numbers and words: what has room in the cells that are in sight. */
  function inside(paint, x, y, { from, to }) {
    const size = view.cell;
    if (spec.hidden && size >= 5) {
      hatch ??= hatching();
      paint.fillStyle = paint.createPattern(hatch, "repeat");
      for (let i = from[0]; i < to[0]; i++) {
        for (let j = from[1], end = j; j < to[1]; j = end + 1) {
          for (end = j; end < to[1] && hides(i, end); ) end++; // a run of hidden pairs is one rectangle
          if (end > j) paint.fillRect(x(j), y(i), (end - j) * size, size);
        }
      }
    }
    if (size >= 9) {
      paint.fillStyle = token("--surface");
      const gap = size >= 24 ? 2 : 1;
      for (let i = from[0] + 1; i < to[0]; i++) paint.fillRect(x(from[1]), y(i) - gap / 2, (to[1] - from[1]) * size, gap);
      for (let j = from[1] + 1; j < to[1]; j++) paint.fillRect(x(j) - gap / 2, y(from[0]), gap, (to[0] - from[0]) * size);
    }
    paint.textAlign = "center";
    paint.textBaseline = "middle";
    if (spec.numbers && size >= 34) {
      const decimals = size >= 52 ? 3 : 2;
      paint.font = `${size >= 52 ? 14 : 12}px ${getComputedStyle(canvas).fontFamily}`;
      for (let i = from[0]; i < to[0]; i++) {
        for (let j = from[1]; j < to[1]; j++) {
          const found = hides(i, j) ? null : colourOf(values[i][j], spec.kind, spec.most);
          if (!found) continue;
          paint.fillStyle = inkOn(found);
          paint.fillText(number(values[i][j], decimals), x(j) + size / 2, y(i) + size / 2);
        }
      }
    }
    if (!spec.across || size < 13) return;
    paint.font = font();
    for (let i = from[0]; i < to[0]; i++) {
      const words = spec.across(i);
      if (!words) continue;
      const middle = x(0) + (S * size) / 2;
      const wide = paint.measureText(words).width + 18;
      const tall = Math.min(size - 2, 24);
      paint.fillStyle = token("--surface");
      paint.beginPath();
      paint.roundRect(middle - wide / 2, y(i) + (size - tall) / 2, wide, tall, 6);
      paint.fill();
      paint.fillStyle = token("--ink");
      paint.fillText(words, middle, y(i) + size / 2 + 1);
    }
  }

  function hatching() {
    const ratio = devicePixelRatio || 1;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8 * Math.ceil(ratio);
    const paint = tile.getContext("2d");
    paint.scale(Math.ceil(ratio), Math.ceil(ratio));
    paint.strokeStyle = token("--strong-line");
    paint.globalAlpha = 0.5;
    paint.lineWidth = 1;
    for (const at of [-8, 0, 8]) {
      paint.beginPath();
      paint.moveTo(at - 1, 9);
      paint.lineTo(at + 9, -1);
      paint.stroke();
    }
    return tile;
  }

  function axes(paint, width, height) {
    const { left, top, slanted } = names();
    paint.font = font();
    const [strong, faint] = [token("--accent"), token("--faint")];
    const ink = (lit) => (paint.fillStyle = lit ? strong : faint);
    const every = Math.max(1, Math.ceil(15 / view.cell));
    paint.textAlign = "right";
    paint.textBaseline = "middle";
    for (let i = Math.ceil(view.top / every) * every; i < L; i += every) {
      const y = top + (i + 0.5 - view.top) * view.cell;
      if (y > height) break;
      if (y < top) continue;
      ink(marks.cell?.[0] === i);
      paint.fillText(rowName(i), left - 6, y);
    }
    const wide = Math.max(1, Math.ceil((slanted ? 15 : 1) / view.cell));
    for (let j = Math.ceil(view.left / wide) * wide; j < S; j += wide) {
      const x = left + (j + 0.5 - view.left) * view.cell;
      if (x > width) break;
      if (x < left) continue;
      ink(marks.cell?.[1] === j);
      if (!slanted) {
        paint.textAlign = "center";
        paint.fillText(columnName(j), x, top / 2);
        continue;
      }
      paint.save();
      paint.translate(x + 3, top - 6);
      paint.rotate(-Math.PI / 4);
      paint.textAlign = "left";
      paint.fillText(columnName(j), 0, 0);
      paint.restore();
    }
  }

  // ---- looking, moving, painting --------------------------------------------------------------------------------

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
    if (aloud) said.textContent = tell(i, j);
    spec.onlook(i, j);
    draw();
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    if (!view) return;
    const { left, top } = names();
    const smallest = fit();
    const next = Math.min(Math.max(view.cell * factor, smallest), Math.max(64, smallest));
    const column = view.left + (x - left) / view.cell;
    const row = view.top + (y - top) / view.cell;
    view = { cell: next, left: column - (x - left) / next, top: row - (y - top) / next };
    draw();
  }

  /** The cells between two, so that a quick stroke leaves no holes. */
  function between([i, j], [to, across]) {
    const steps = Math.max(Math.abs(to - i), Math.abs(across - j));
    return Array.from({ length: steps }, (_, n) => [Math.round(i + ((to - i) * (n + 1)) / steps), Math.round(j + ((across - j) * (n + 1)) / steps)]);
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (!view || event.button !== 0) return;
    const at = placeOf(event);
    const painting = Boolean(spec.onpaint && at && spec.pen());
    drag = { x: event.clientX, y: event.clientY, moved: false, painting, last: at };
    canvas.setPointerCapture(event.pointerId);
    if (!painting) return;
    event.preventDefault();
    canvas.focus({ preventScroll: true });
    look(...at);
    spec.onpaint([at], "begin");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!view) return;
    const at = placeOf(event);
    if (drag?.painting) {
      if (!at || (at[0] === drag.last[0] && at[1] === drag.last[1])) return;
      spec.onpaint(between(drag.last, at), "go");
      drag.last = at;
      look(...at);
      return;
    }
    if (drag && spec.zoom) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      if (drag.moved || Math.hypot(dx, dy) > 4) {
        view.left -= dx / view.cell;
        view.top -= dy / view.cell;
        Object.assign(drag, { x: event.clientX, y: event.clientY, moved: true });
        draw();
        return;
      }
    }
    if (at && (at[0] !== cell[0] || at[1] !== cell[1] || !marks.cell)) look(...at);
  });
  function release(event) {
    const at = view && drag && !drag.moved && event.type === "pointerup" && placeOf(event);
    const painting = drag?.painting;
    drag = null;
    if (painting) spec.onpaint([], "end");
    else if (at) {
      look(...at);
      spec.onpick(...at);
    }
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => spec.onleave());
  canvas.addEventListener("focus", () => {
    if (view && canvas.matches(":focus-visible") && !drag) look(...cell, true);
  });
  if (spec.zoom) {
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!view || (!event.ctrlKey && !event.shiftKey && view.cell <= fit() * 1.001 && event.deltaY > 0)) return; // let the page scroll
        event.preventDefault();
        const box = canvas.getBoundingClientRect();
        zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
      },
      { passive: false },
    );
  }
  canvas.addEventListener("keydown", (event) => {
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    let [i, j] = cell;
    const by = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowUp") i -= by;
    else if (event.key === "ArrowDown") i += by;
    else if (event.key === "ArrowLeft") j -= by;
    else if (event.key === "ArrowRight") j += by;
    else if (event.key === "Home") j = 0;
    else if (event.key === "End") j = S - 1;
    else if (spec.zoom && (event.key === "+" || event.key === "=")) zoom(1.5);
    else if (spec.zoom && event.key === "-") zoom(1 / 1.5);
    else if (spec.zoom && event.key === "0") whole();
    else if (event.key === "Enter" || event.key === " ") {
      if (!spec.onpaint) spec.onpick(i, j);
      else {
        look(i, j);
        spec.onpaint([[i, j]], "begin");
        spec.onpaint([], "end");
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
    i = Math.min(Math.max(0, i), L - 1);
    j = Math.min(Math.max(0, j), S - 1);
    if (/^(Arrow|Home|End)/.test(event.key)) {
      reveal(i, j);
      look(i, j, true);
    }
  });

  /** Move the part in sight so that it holds this cell. */
  function reveal(i, j) {
    const { left, top } = names();
    const across = (canvas.clientWidth - left) / view.cell;
    const down = (canvas.clientHeight - top) / view.cell;
    if (j < view.left) view.left = j;
    if (i < view.top) view.top = i;
    if (j + 1 > view.left + across) view.left = j + 1 - across;
    if (i + 1 > view.top + down) view.top = i + 1 - down;
  }

  colour();
  new ResizeObserver(resized).observe(element);
  return {
    element,
    canvas,
    whole,
    zoom: (factor) => zoom(factor),
    mark(wanted) {
      marks = wanted;
      if (wanted.cell) cell = wanted.cell;
      draw();
    },
    /** Where the middle of a cell is on the page. */
    at(i, j) {
      const box = canvas.getBoundingClientRect();
      const { left, top } = names();
      return { x: box.left + left + (j + 0.5 - view.left) * view.cell, y: box.top + top + (i + 0.5 - view.top) * view.cell };
    },
    tell: () => (said.textContent = tell(...cell)),
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

// A matrix as coloured cells on a canvas, with names, numbers, zoom, panning and keyboard control. Used by the HTML page
// of regard.pictures and by the lab (static/kit/heatmap.js). It imports nothing; colours and texts are passed in.
//
// heatmap({ canvas, rows, columns, values, palette, token, … })
//   values      one array of numbers per row
//   palette     () → { index: (x) → place in the table or -1 for no colour, colours: [r, g, b, r, g, b, …] }
//   token       (name) → CSS colour of "--ink", "--faint", "--accent", "--surface", "--raised" or "--strong-line"
//   height      "auto": as tall as the cells need, at most `tallest`; otherwise the height that CSS gives the canvas
//   axes        draw the names of rows and columns; `corner` are two labels between them, `longest` their lengths
//   text        (i, j, size of a cell) → number to write into a cell of at least `textFrom` pixels
//   hidden      (i, j) → whether a mask hides the pair: it is hatched
//   across      i → text across a whole row, for example that the row is empty
//   pen         () → whether a drag paints instead of moving; then onpaint(cells, "begin" | "go" | "end") is called
//   scrolls     the page scrolls under the whole map; false: the wheel and the fingers always act on the map
//   onlook(i, j, byKey), onleave, onpick(i, j)     a cell is read, the pointer left the map, a cell is chosen
// → { canvas, mark({ cell, rows, columns }), update({ values, rows, columns }), draw, drawNow, zoom, whole, view, cell }
// Pointer: hover reads a cell, drag moves, wheel and pinch zoom. Keys: arrows (Shift: by ten), Home, End, + and −, 0 for the
// whole map, Enter and space to choose or paint.

/** Black or white, whichever has more contrast on the colour. */
export function inkOn([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((x) => (x / 255) ** 2.2);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) ? "#000000" : "#ffffff";
}

export function heatmap(options) {
  const spec = { tallest: 620, axes: true, longest: [12, 9], zoom: true, largest: 96, zoomTo: 64, textFrom: 34, scrolls: true, readOnFocus: true, pen: () => false, onlook() {}, onleave() {}, onpick() {}, ...options };
  const { canvas, token } = spec;
  const paint = canvas.getContext("2d");
  const picture = document.createElement("canvas");
  const auto = spec.height === "auto";
  let { values, rows, columns } = spec;
  let L = rows.length;
  let S = columns.length;
  let cell = [0, 0];
  let marks = {};
  let view = null; // left and top in cells, and the size of a cell in CSS pixels
  let fitted = 0; // size of a cell when the whole map is visible
  let margins = null;
  let hatch = null;
  let frame = 0;

  const hides = (i, j) => Boolean(spec.hidden?.(i, j));
  const short = (name, longest) => {
    const letters = [...name];
    return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : name;
  };

  // ---- size and visible part ------------------------------------------------------------------------------------

  const fontFamily = () => getComputedStyle(canvas).fontFamily;
  const font = () => `12.5px ${fontFamily()}`;
  const rowName = (i) => short(rows[i], spec.longest[0]);
  const columnName = (j) => short(columns[j], spec.longest[1]);

  /** Space for the names; those of the columns are slanted where the columns are narrow. */
  function names() {
    if (!spec.axes) return { left: 0, top: 0, right: 0, slanted: false };
    if (margins) return margins;
    paint.font = font();
    const widest = (list, name) => list.reduce((most, _, i) => Math.max(most, paint.measureText(name(i)).width), 8);
    const left = Math.max(Math.ceil(widest(rows, rowName)) + 10, spec.corner ? 56 : 0);
    const wide = widest(columns, columnName);
    const slanted = wide + 6 > (canvas.clientWidth - left) / S;
    const rise = Math.ceil(wide * 0.71);
    margins = slanted ? { left, top: Math.max(rise + 16, spec.corner ? 44 : 0), right: Math.min(rise, 40), slanted } : { left, top: spec.corner ? 44 : 24, right: 0, slanted };
    return margins;
  }

  function fit() {
    const { left, top, right } = names();
    const width = Math.max(1, canvas.clientWidth - left - right);
    const height = Math.max(1, (auto ? spec.tallest : canvas.clientHeight) - top);
    return Math.min(width / S, height / L, spec.largest);
  }

  function resized() {
    const zoomed = view && view.cell > 1.001 * fitted;
    margins = null;
    if (!zoomed) view = null;
    if (auto && canvas.clientWidth) canvas.style.height = `${Math.ceil(names().top + fit() * L) + 1}px`;
    draw();
  }

  function whole() {
    fitted = fit();
    view = { left: 0, top: 0, cell: fitted };
    draw();
  }

  const extent = () => {
    const { left, top } = names();
    return { across: (canvas.clientWidth - left) / view.cell, down: (canvas.clientHeight - top) / view.cell };
  };

  function clamp() {
    const { across, down } = extent();
    view.left = Math.min(Math.max(0, view.left), Math.max(0, S - across));
    view.top = Math.min(Math.max(0, view.top), Math.max(0, L - down));
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  function draw() {
    if (!frame) frame = requestAnimationFrame(drawNow);
  }

  function drawNow() {
    cancelAnimationFrame(frame);
    frame = 0;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || !height || !L || !S) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    fitted = fit();
    view ??= { left: 0, top: 0, cell: fitted };
    clamp();
    // Fingers move the map only when it is zoomed in, and paint only with the pen; otherwise they scroll the page.
    if (spec.scrolls) canvas.style.touchAction = spec.pen() || (spec.zoom && view.cell > 1.01 * fitted) ? "none" : "pan-y";
    const { left, top } = names();
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    if (spec.background) {
      paint.fillStyle = token(spec.background);
      paint.fillRect(0, 0, width, height);
    }
    const across = Math.min(S - view.left, (width - left) / view.cell);
    const down = Math.min(L - view.top, (height - top) / view.cell);
    paint.fillStyle = token("--raised");
    paint.fillRect(left, top, across * view.cell, down * view.cell);
    const palette = spec.palette();
    drawCells(palette, ratio, left, top, across, down);
    paint.save();
    paint.beginPath();
    paint.rect(left, top, width - left, height - top);
    paint.clip();
    const x = (j) => left + (j - view.left) * view.cell;
    const y = (i) => top + (i - view.top) * view.cell;
    drawInside(palette, x, y, {
      from: [Math.floor(view.top), Math.floor(view.left)],
      to: [Math.min(L, Math.ceil(view.top + down)), Math.min(S, Math.ceil(view.left + across))],
    });
    paint.strokeStyle = token("--accent");
    paint.lineWidth = 1.5;
    for (const i of marks.rows ?? []) paint.strokeRect(x(0), y(i), S * view.cell, view.cell);
    for (const j of marks.columns ?? []) paint.strokeRect(x(j), y(0), view.cell, L * view.cell);
    if (marks.cell) {
      const [i, j] = marks.cell;
      const side = Math.max(view.cell + 2, 6);
      paint.lineWidth = 2.5;
      paint.strokeRect(x(j + 0.5) - side / 2, y(i + 0.5) - side / 2, side, side);
    }
    paint.restore();
    if (spec.axes) drawNames(width, height);
  }

  /** Colour each device pixel by the strongest value under it, so that no strong pair is lost when cells are small. */
  function drawCells({ index, colours }, ratio, left, top, across, down) {
    const size = view.cell * ratio;
    const [x0, y0] = [Math.round(left * ratio), Math.round(top * ratio)];
    const width = Math.min(canvas.width - x0, Math.round(across * size));
    const height = Math.min(canvas.height - y0, Math.round(down * size));
    if (width <= 0 || height <= 0) return;
    const image = new ImageData(width, height);
    const pixels = image.data;
    const edges = (count, first, most) => Int32Array.from({ length: count + 1 }, (_, p) => Math.min(most - 1, Math.floor(first + p / size)));
    const xs = edges(width, view.left, S);
    const ys = edges(height, view.top, L);
    const line = new Float32Array(S);
    const stronger = (a, b) => (Number.isNaN(a) || Math.abs(b) > Math.abs(a) ? b : a);
    let start = 0;
    for (let y = 0; y < height; y++, start += 4 * width) {
      const to = Math.max(ys[y] + 1, ys[y + 1]);
      if (y > 0 && ys[y] === ys[y - 1] && to === ys[y] + 1) {
        pixels.copyWithin(start, start - 4 * width, start);
        continue;
      }
      for (let j = xs[0]; j <= xs[width]; j++) {
        line[j] = NaN; // NaN has no colour
        for (let i = ys[y]; i < to; i++) if (!hides(i, j)) line[j] = stronger(line[j], values[i][j]);
      }
      for (let x = 0, at = start; x < width; x++, at += 4) {
        let value = line[xs[x]];
        for (let j = xs[x] + 1; j < xs[x + 1]; j++) value = stronger(value, line[j]);
        const place = 3 * index(value);
        if (place < 0) continue;
        pixels[at] = colours[place];
        pixels[at + 1] = colours[place + 1];
        pixels[at + 2] = colours[place + 2];
        pixels[at + 3] = 255;
      }
    }
    picture.width = width;
    picture.height = height;
    picture.getContext("2d").putImageData(image, 0, 0);
    paint.setTransform(1, 0, 0, 1, 0, 0);
    paint.drawImage(picture, x0, y0);
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** Hatching, gaps between cells, numbers, and texts across rows, where the cells are large enough. */
  function drawInside({ index, colours }, x, y, { from, to }) {
    const size = view.cell;
    if (spec.hidden && size >= 5) {
      hatch ??= hatching();
      paint.fillStyle = paint.createPattern(hatch, "repeat");
      for (let i = from[0]; i < to[0]; i++) {
        for (let j = from[1], end = j; j < to[1]; j = end + 1) {
          for (end = j; end < to[1] && hides(i, end); ) end++; // one rectangle for neighbouring hidden pairs
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
    if (spec.text && size >= spec.textFrom) {
      paint.font = `${size >= 52 ? 13 : 12}px ${fontFamily()}`;
      for (let i = from[0]; i < to[0]; i++) {
        for (let j = from[1]; j < to[1]; j++) {
          const place = hides(i, j) ? -1 : 3 * index(values[i][j]);
          if (place < 0) continue;
          paint.fillStyle = inkOn([colours[place], colours[place + 1], colours[place + 2]]);
          paint.fillText(spec.text(i, j, size), x(j) + size / 2, y(i) + size / 2);
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
    const ratio = Math.ceil(devicePixelRatio || 1);
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8 * ratio;
    const brush = tile.getContext("2d");
    brush.scale(ratio, ratio);
    brush.strokeStyle = token("--strong-line");
    brush.globalAlpha = 0.5;
    brush.lineWidth = 1;
    for (const at of [-8, 0, 8]) {
      brush.beginPath();
      brush.moveTo(at - 1, 9);
      brush.lineTo(at + 9, -1);
      brush.stroke();
    }
    return tile;
  }

  function drawNames(width, height) {
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
    const apart = Math.max(1, Math.ceil((slanted ? 15 : 1) / view.cell));
    for (let j = Math.ceil(view.left / apart) * apart; j < S; j += apart) {
      const x = left + (j + 0.5 - view.left) * view.cell;
      if (x > width) break;
      if (x < left) continue;
      ink(marks.cell?.[1] === j);
      if (!slanted) {
        paint.textAlign = "center";
        paint.fillText(columnName(j), x, top - 12);
        continue;
      }
      paint.save();
      paint.translate(x + 3, top - 6);
      paint.rotate(-Math.PI / 4);
      paint.textAlign = "left";
      paint.fillText(columnName(j), 0, 0);
      paint.restore();
    }
    if (!spec.corner) return;
    ink(false);
    paint.font = `11px ${fontFamily()}`;
    paint.textAlign = "left";
    spec.corner.forEach((label, n) => paint.fillText(label, 4, top - 24 + 15 * n));
  }

  // ---- pointer and keys -----------------------------------------------------------------------------------------

  const position = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left - canvas.clientLeft, y: event.clientY - box.top - canvas.clientTop };
  };

  function cellAt({ x, y }) {
    const { left, top } = names();
    const j = Math.floor((x - left) / view.cell + view.left);
    const i = Math.floor((y - top) / view.cell + view.top);
    return i >= 0 && j >= 0 && i < L && j < S && x >= left && y >= top ? [i, j] : null;
  }

  /** Read a cell; `aloud` says whether the keyboard moved to it, so that a screen reader should announce it. */
  function look(i, j, aloud = false) {
    cell = [i, j];
    marks = { ...marks, cell };
    spec.onlook(i, j, aloud);
    draw();
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    if (!view) return;
    const { left, top } = names();
    const smallest = fit();
    const next = Math.min(Math.max(view.cell * factor, smallest), Math.max(spec.zoomTo, smallest));
    const column = view.left + (x - left) / view.cell;
    const row = view.top + (y - top) / view.cell;
    view = { cell: next, left: column - (x - left) / next, top: row - (y - top) / next };
    clamp();
    draw();
  }

  /** Zoom around the current cell if it is visible, otherwise around the middle. */
  function zoomAtCell(factor) {
    const { left, top } = names();
    const [x, y] = [left + (cell[1] + 0.5 - view.left) * view.cell, top + (cell[0] + 0.5 - view.top) * view.cell];
    const visible = marks.cell && x >= left && y >= top && x < canvas.clientWidth && y < canvas.clientHeight;
    zoom(factor, ...(visible ? [x, y] : []));
  }

  /** The cells between two, so that a quick stroke of the pen leaves no gaps. */
  function between([i, j], [to, across]) {
    const steps = Math.max(Math.abs(to - i), Math.abs(across - j));
    return Array.from({ length: steps }, (_, n) => [Math.round(i + ((to - i) * (n + 1)) / steps), Math.round(j + ((across - j) * (n + 1)) / steps)]);
  }

  const pointers = new Map(); // position of each pointer that is down
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (!view || event.button !== 0) return;
    const here = position(event);
    const at = cellAt(here);
    const painting = Boolean(spec.onpaint && at && spec.pen());
    pointers.set(event.pointerId, here);
    drag = { ...here, moved: pointers.size > 1, painting, last: at };
    canvas.setPointerCapture(event.pointerId);
    if (!painting) return;
    event.preventDefault();
    canvas.focus({ preventScroll: true });
    look(...at);
    spec.onpaint([at], "begin");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!view) return;
    const here = position(event);
    const at = cellAt(here);
    const before = pointers.get(event.pointerId);
    if (before) pointers.set(event.pointerId, here);
    if (drag?.painting) {
      if (!at || (at[0] === drag.last[0] && at[1] === drag.last[1])) return;
      spec.onpaint(between(drag.last, at), "go");
      drag.last = at;
      look(...at);
      return;
    }
    if (before && spec.zoom) {
      if (pointers.size > 1) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
        zoom(apart(here) / apart(before), (here.x + other.x) / 2, (here.y + other.y) / 2);
        return;
      }
      const [dx, dy] = [here.x - drag.x, here.y - drag.y];
      if (drag.moved || Math.hypot(dx, dy) > 4) {
        view.left -= dx / view.cell;
        view.top -= dy / view.cell;
        Object.assign(drag, here, { moved: true });
        clamp();
        draw();
        return;
      }
    }
    if (at && (at[0] !== cell[0] || at[1] !== cell[1] || !marks.cell)) look(...at);
  });
  function release(event) {
    pointers.delete(event.pointerId);
    const at = view && drag && !drag.moved && event.type === "pointerup" && cellAt(position(event));
    const painting = drag?.painting;
    drag = pointers.size > 0 ? { ...[...pointers.values()][0], moved: true } : null;
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
    if (spec.readOnFocus && view && canvas.matches(":focus-visible") && !drag) look(...cell, true);
  });
  if (spec.zoom) {
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!view || (spec.scrolls && !event.ctrlKey && !event.shiftKey && view.cell <= fit() * 1.001 && event.deltaY > 0)) return; // the page scrolls
        event.preventDefault();
        const { x, y } = position(event);
        zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 1 / 300)), x, y);
      },
      { passive: false },
    );
  }
  canvas.addEventListener("keydown", (event) => {
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    let [i, j] = cell;
    const by = event.shiftKey ? 10 : 1;
    const moves = /^(Arrow|Home|End)/.test(event.key);
    if (moves && !marks.cell && !spec.readOnFocus) [i, j] = [Math.floor(view.top), Math.floor(view.left)]; // the first key shows where it starts
    else if (event.key === "ArrowUp") i -= by;
    else if (event.key === "ArrowDown") i += by;
    else if (event.key === "ArrowLeft") j -= by;
    else if (event.key === "ArrowRight") j += by;
    else if (event.key === "Home") j = 0;
    else if (event.key === "End") j = S - 1;
    else if (spec.zoom && (event.key === "+" || event.key === "=")) zoomAtCell(1.5);
    else if (spec.zoom && event.key === "-") zoomAtCell(1 / 1.5);
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
    if (!moves) return;
    i = Math.min(Math.max(0, i), L - 1);
    j = Math.min(Math.max(0, j), S - 1);
    reveal(i, j);
    look(i, j, true);
  });

  /** Move the visible part so that it contains this cell. */
  function reveal(i, j) {
    const { across, down } = extent();
    view.left = Math.min(Math.max(view.left, j + 1 - across), j);
    view.top = Math.min(Math.max(view.top, i + 1 - down), i);
  }

  new ResizeObserver(resized).observe(canvas);
  return {
    canvas,
    draw,
    drawNow,
    whole,
    zoom: (factor) => zoom(factor),
    /** First visible row and column, size of a cell, margins, and size of a cell when the whole map is visible. */
    view: () => ({ ...view, margin: names(), whole: fit() }),
    mark(wanted) {
      marks = wanted;
      if (wanted.cell) cell = wanted.cell;
      draw();
    },
    cell: () => marks.cell ?? null,
    /** New values; new names of rows or columns show the whole map again. */
    update(next) {
      values = next.values;
      if (next.rows && (next.rows !== rows || next.columns !== columns)) {
        ({ rows, columns } = next);
        [L, S, cell, marks, margins] = [rows.length, columns.length, [0, 0], {}, null];
        whole();
      }
      draw();
    },
  };
}

"use strict";

// The page of regard.pictures.attention_page. encoding.py says how the numbers are stored.

const facts = JSON.parse(document.getElementById("facts").textContent);
const element = (id) => document.getElementById(id);

// ---- reading the stored numbers ------------------------------------------------------------------------

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
const DIGIT = new Uint8Array(128);
for (let i = 0; i < ALPHABET.length; i++) DIGIT[ALPHABET.charCodeAt(i)] = i;

/** Base 85: five characters for four bytes. */
function bytesOf(text) {
  const bytes = new Uint8Array((text.length / 5) * 4);
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let value = 0;
    for (let j = 0; j < 5; j++) value = value * 85 + DIGIT[text.charCodeAt(i + j)];
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
  }
  return bytes;
}

/** The bytes of a stored block, inflated. Up to three zero bytes may follow the stream; they are no part of it. */
async function stored(id) {
  const inflate = new DecompressionStream("deflate-raw");
  const writer = inflate.writable.getWriter();
  const packed = bytesOf(element(id).textContent);
  const ended = Number(element(id).dataset.size);
  writer.write(packed.subarray(0, ended));
  writer.close();
  return new Uint8Array(await new Response(inflate.readable).arrayBuffer());
}

const masks = new Map();

async function mask(index) {
  if (index < 0) return null;
  if (!masks.has(index)) masks.set(index, await stored(`mask-${index}`));
  return masks.get(index);
}

const bit = (bits, i) => (bits[i >> 3] >> (i & 7)) & 1;

// ---- three digits: 0 for 0, else 1 + 900 (exponent + 71) + digits − 100 -----------------------------------

const LOWEST = -71;
const POWER = Array.from({ length: 76 }, (_, n) => Number(`1e${n}`));

/** To the nearest whole number, a half to the even one, as NumPy rounds. */
function nearest(x) {
  const down = Math.floor(x);
  const rest = x - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

function threeDigits(x) {
  if (x < 1 / POWER[-LOWEST]) return 0;
  let exponent = Math.floor(Math.log10(x));
  for (let i = 0; i < 2; i++) {
    const digits = nearest(x * POWER[2 - exponent]);
    if (digits >= 1000) exponent++;
    else if (digits < 100) exponent--;
  }
  return 1 + 900 * (exponent - LOWEST) + nearest(x * POWER[2 - exponent]) - 100;
}

function textOfCode(code) {
  if (code === 0) return "0";
  const exponent = Math.floor((code - 1) / 900) + LOWEST;
  const digits = ((code - 1) % 900) + 100;
  return Number(`${digits}e${exponent - 2}`).toPrecision(3);
}

function valueOfCode(code) {
  return code === 0 ? 0 : (((code - 1) % 900) + 100) * 10 ** (Math.floor((code - 1) / 900) + LOWEST - 2);
}

// ---- a head: its values, and the text of each ---------------------------------------------------------------

/** Whole numbers stored as planes of bytes, column by column; returned row by row. */
function wholeNumbers(bytes, start, rows, columns, { least, bytes: count }) {
  const size = rows * columns;
  const numbers = new Float64Array(size);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      let value = 0;
      for (let plane = count - 1; plane >= 0; plane--) {
        value = value * 256 + bytes[start + plane * size + column * rows + row];
      }
      numbers[row * columns + column] = value + least;
    }
  }
  return numbers;
}

async function readFactors(about, bytes, L, S) {
  const { rank, step } = about;
  const a = wholeNumbers(bytes, 0, L, rank, about.a);
  let at = L * rank * about.a.bytes;
  const b = wholeNumbers(bytes, at, S, rank, about.b);
  at += S * rank * about.b.bytes;
  const changed = bytes.subarray(at, at + Math.ceil((L * S) / 8));
  const signs = bytes.subarray(at + changed.length);
  const visible = await mask(about.mask);
  const values = new Float32Array(L * S);
  const codes = new Uint16Array(L * S);
  const row = new Float64Array(S);
  let change = 0;
  for (let i = 0; i < L; i++) {
    let highest = -Infinity;
    for (let j = 0; j < S; j++) {
      let dot = 0;
      for (let c = 0; c < rank; c++) dot += a[i * rank + c] * b[j * rank + c];
      row[j] = visible === null || bit(visible, i * S + j) ? dot * (step * step) : -Infinity;
      if (row[j] > highest) highest = row[j];
    }
    let sum = 0;
    for (let j = 0; j < S; j++) sum += row[j] = highest === -Infinity ? 0 : Math.exp(row[j] - highest);
    for (let j = 0; j < S; j++) {
      const place = i * S + j;
      const weight = sum === 0 ? 0 : row[j] / sum;
      let code = threeDigits(weight);
      if (bit(changed, place)) code += bit(signs, change++) ? 1 : -1;
      values[place] = weight;
      codes[place] = code;
    }
  }
  for (const [place, code] of about.far) codes[place] = code;
  return { values, text: (place) => textOfCode(codes[place]) };
}

function readDigits(_, bytes, L, S) {
  const values = new Float32Array(L * S);
  const codes = new Uint16Array(L * S);
  for (let i = 0; i < L * S; i++) {
    codes[i] = bytes[i] * 256 + bytes[i + L * S];
    values[i] = valueOfCode(codes[i]);
  }
  return { values, text: (place) => textOfCode(codes[place]) };
}

function readExact(_, bytes) {
  const values = new Float32Array(bytes.buffer);
  return { values, text: (place) => String(Number(values[place].toPrecision(6))) };
}

async function readHead(index) {
  const about = facts.heads[index];
  const { queries, keys } = namesOf(about.layer);
  const bytes = await stored(`head-${index}`);
  const readers = { factors: readFactors, digits: readDigits, exact: readExact };
  const head = await readers[about.way](about, bytes, queries.length, keys.length);
  head.highest = head.values.reduce((most, x) => Math.max(most, x), 0) || 1;
  head.least = head.values.reduce((least, x) => (x > 0 && x < least ? x : least), head.highest);
  return head;
}

/** The names of a layer's queries and keys. Layers may differ: an encoder's tokens, a decoder's, one step's. */
function namesOf(layer) {
  const { queries, keys } = facts.layers[layer];
  return { queries: facts.tokens[queries], keys: facts.tokens[keys] };
}

const read = new Map(); // the heads looked at last, as promises

function headNumbered(index) {
  const found = read.get(index) ?? readHead(index);
  read.delete(index);
  read.set(index, found);
  if (read.size > 24) read.delete(read.keys().next().value);
  return found;
}

// ---- colours ----------------------------------------------------------------------------------------------

const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const table = () => facts.colours[root.dataset.theme];

/** The place in the colour table (0 to 255) of a weight. */
function shade(head) {
  const curve = element("curve").value;
  if (curve === "log") {
    const low = Math.log(Math.max(head.least, head.highest * 1e-6));
    const room = Math.log(head.highest) - low || 1;
    return (x) => (x <= 0 ? 0 : Math.max(0, Math.round((255 * (Math.log(x) - low)) / room)));
  }
  if (curve === "root") return (x) => Math.round(255 * Math.sqrt(x / head.highest));
  return (x) => Math.round((255 * x) / head.highest);
}

// ---- the map ------------------------------------------------------------------------------------------------

const canvas = element("map");
const pen = canvas.getContext("2d");
const FONT = getComputedStyle(document.body).fontFamily;
const view = { left: 0, top: 0, cell: 1 }; // in cells, and CSS pixels for a cell
let margin = { left: 60, top: 60 };
let shown = null; // the head on the map
let queries = []; // the names of its rows and columns, and how many there are
let keys = [];
let L = 0;
let S = 0;
let shownIndex = -1;
let kept = 0; // the head chosen by a click
let cell = null; // {query, key}

const visibleToken = (token) => (token.trim() === "" ? token.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥") || "∅" : token);
const short = (token, most = 14) => {
  const letters = [...visibleToken(token)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
};

function room() {
  return { width: canvas.clientWidth - margin.left, height: canvas.clientHeight - margin.top };
}

const wholeCell = () => Math.min(room().width / S, room().height / L);

function clampView() {
  view.cell = Math.min(Math.max(view.cell, wholeCell()), 160);
  view.left = Math.min(Math.max(view.left, 0), Math.max(0, S - room().width / view.cell));
  view.top = Math.min(Math.max(view.top, 0), Math.max(0, L - room().height / view.cell));
}

function zoom(factor, x = margin.left + room().width / 2, y = margin.top + room().height / 2) {
  const column = view.left + (x - margin.left) / view.cell;
  const line = view.top + (y - margin.top) / view.cell;
  view.cell *= factor;
  clampView();
  view.left = column - (x - margin.left) / view.cell;
  view.top = line - (y - margin.top) / view.cell;
  clampView();
  draw();
}

function measure() {
  pen.font = `12px ${FONT}`;
  const widest = (tokens) => tokens.reduce((most, token) => Math.max(most, pen.measureText(short(token)).width), 0);
  const most = Math.max(56, canvas.clientWidth * 0.25);
  margin = { left: Math.min(Math.max(widest(queries) + 14, 56), most), top: Math.min(Math.max(widest(keys) + 14, 44), most) };
}

function draw() {
  if (!shown || !canvas.clientWidth) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = colour("background");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  drawCells(ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawNames();
  drawNumbers();
  drawFrame();
  drawLegend();
}

/** Every pixel shows the largest weight of the cells under it, so that no strong pair is lost when small. */
function drawCells(ratio) {
  const size = view.cell * ratio;
  const x0 = Math.round(margin.left * ratio);
  const y0 = Math.round(margin.top * ratio);
  const width = Math.min(canvas.width - x0, Math.round((S - view.left) * size));
  const height = Math.min(canvas.height - y0, Math.round((L - view.top) * size));
  if (width <= 0 || height <= 0) return;
  const image = pen.createImageData(width, height);
  const place = shade(shown);
  const colours = table();
  const edges = (count, first, most) =>
    Int32Array.from({ length: count + 1 }, (_, p) => Math.min(most - 1, Math.floor(first + p / size)));
  const columns = edges(width, view.left, S);
  const rows = edges(height, view.top, L);
  const line = new Float32Array(S);
  let drawnRow = -1;
  for (let y = 0; y < height; y++) {
    const start = y * width * 4;
    const from = rows[y];
    const to = Math.max(from + 1, rows[y + 1]);
    if (from === drawnRow && to === from + 1 && rows[y - 1] === from) {
      image.data.copyWithin(start, start - width * 4, start);
      continue;
    }
    drawnRow = from;
    line.set(shown.values.subarray(from * S, from * S + S));
    for (let i = from + 1; i < to; i++) {
      for (let j = columns[0]; j <= columns[width]; j++) line[j] = Math.max(line[j], shown.values[i * S + j]);
    }
    for (let x = 0; x < width; x++) {
      let most = line[columns[x]];
      for (let j = columns[x] + 1; j < columns[x + 1]; j++) most = Math.max(most, line[j]);
      const c = 3 * place(most);
      const at = start + 4 * x;
      image.data[at] = colours[c];
      image.data[at + 1] = colours[c + 1];
      image.data[at + 2] = colours[c + 2];
      image.data[at + 3] = 255;
    }
  }
  pen.putImageData(image, x0, y0);
}

function drawNames() {
  const size = Math.min(13, Math.max(10, view.cell * 0.8));
  const every = Math.max(1, Math.ceil((size + 2) / view.cell));
  pen.font = `${size}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.fillStyle = colour("ink");
  pen.save();
  pen.beginPath();
  pen.rect(0, margin.top, margin.left, canvas.clientHeight);
  pen.clip();
  pen.textAlign = "right";
  for (let i = Math.ceil(view.top / every) * every; i < L; i += every) {
    const y = margin.top + (i + 0.5 - view.top) * view.cell;
    if (y > canvas.clientHeight) break;
    name(queries[i], margin.left - 6, y, i, cell?.query);
  }
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(margin.left, 0, canvas.clientWidth, margin.top);
  pen.clip();
  pen.textAlign = "left";
  for (let j = Math.ceil(view.left / every) * every; j < S; j += every) {
    const x = margin.left + (j + 0.5 - view.left) * view.cell;
    if (x > canvas.clientWidth) break;
    pen.save();
    pen.translate(x, margin.top - 6);
    pen.rotate(-Math.PI / 2);
    name(keys[j], 0, 0, j, cell?.key);
    pen.restore();
  }
  pen.restore();
  pen.fillStyle = colour("faint");
  pen.font = `11px ${FONT}`;
  pen.textAlign = "left";
  pen.fillText("query ↓", 4, margin.top - 24);
  pen.fillText("key →", 4, margin.top - 9);
}

function name(token, x, y, index, chosen) {
  pen.fillStyle = colour(index === chosen ? "accent" : "ink");
  pen.fillText(short(token), x, y);
}

function drawNumbers() {
  if (view.cell < 50) return;
  const place = shade(shown);
  const colours = table();
  pen.font = `${Math.min(13, view.cell / 4.4)}px ${FONT}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.save();
  pen.beginPath();
  pen.rect(margin.left, margin.top, room().width, room().height);
  pen.clip();
  for (let i = Math.floor(view.top); i < Math.min(L, view.top + room().height / view.cell); i++) {
    for (let j = Math.floor(view.left); j < Math.min(S, view.left + room().width / view.cell); j++) {
      const c = 3 * place(shown.values[i * S + j]);
      const light = 0.299 * colours[c] + 0.587 * colours[c + 1] + 0.114 * colours[c + 2];
      pen.fillStyle = light > 125 ? "#000000" : "#ffffff";
      const text = Number(shown.text(i * S + j)).toPrecision(3);
      const exact = Number(text) === 0 ? "0" : text;
      pen.fillText(exact, margin.left + (j + 0.5 - view.left) * view.cell, margin.top + (i + 0.5 - view.top) * view.cell);
    }
  }
  pen.restore();
}

function drawFrame() {
  if (!cell) return;
  pen.save();
  pen.beginPath();
  pen.rect(margin.left, margin.top, room().width, room().height);
  pen.clip();
  pen.strokeStyle = colour("accent");
  pen.lineWidth = 2;
  const side = Math.max(view.cell, 6);
  const x = margin.left + (cell.key + 0.5 - view.left) * view.cell - side / 2;
  const y = margin.top + (cell.query + 0.5 - view.top) * view.cell - side / 2;
  pen.strokeRect(x, y, side, side);
  pen.restore();
}

function drawLegend() {
  const ramp = element("ramp").getContext("2d");
  const image = ramp.createImageData(256, 1);
  const place = shade(shown);
  const colours = table();
  for (let i = 0; i < 256; i++) {
    const c = 3 * place((shown.highest * i) / 255);
    image.data.set([colours[c], colours[c + 1], colours[c + 2], 255], 4 * i);
  }
  ramp.putImageData(image, 0, 0);
  element("highest").textContent = `${Number(shown.highest.toPrecision(3))}, the largest weight of this head`;
}

// ---- the cell in question ------------------------------------------------------------------------------------

const titleOf = (index) => `${facts.layers[facts.heads[index].layer].name}, head ${facts.heads[index].head}`;

function say() {
  if (!cell || !shown) return;
  const { query, key } = cell;
  const text = shown.text(query * S + key);
  element("value").textContent =
    `query ${query} “${visibleToken(queries[query])}” → key ${key} “${visibleToken(keys[key])}”: ${text}`;
}

function choose(query, key) {
  cell = { query: Math.min(Math.max(query, 0), L - 1), key: Math.min(Math.max(key, 0), S - 1) };
  say();
}

function reveal() {
  const across = room().width / view.cell;
  const down = room().height / view.cell;
  view.left = Math.min(Math.max(view.left, cell.key + 1 - across), cell.key);
  view.top = Math.min(Math.max(view.top, cell.query + 1 - down), cell.query);
  clampView();
}

canvas.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 10 : 1;
  const moves = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] };
  const move = moves[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (move) {
    if (cell) choose(cell.query + move[0], cell.key + move[1]);
    else choose(Math.floor(view.top), Math.floor(view.left));
    reveal();
    draw();
  } else if (event.key === "+" || event.key === "=" || event.key === "-") {
    const x = cell ? margin.left + (cell.key + 0.5 - view.left) * view.cell : undefined;
    const y = cell ? margin.top + (cell.query + 0.5 - view.top) * view.cell : undefined;
    zoom(event.key === "-" ? 1 / 1.5 : 1.5, x, y);
  } else if (event.key === "0") showWhole();
  else return;
  event.preventDefault();
});

function showWhole() {
  Object.assign(view, { left: 0, top: 0, cell: 0 });
  clampView();
  draw();
}

// ---- pointer: hover reads, drag moves, wheel and pinch zoom --------------------------------------------------

const pointers = new Map();

function under(event) {
  const query = Math.floor(view.top + (event.offsetY - margin.top) / view.cell);
  const key = Math.floor(view.left + (event.offsetX - margin.left) / view.cell);
  const inside = event.offsetX >= margin.left && event.offsetY >= margin.top && query < L && key < S;
  return inside ? { query, key } : null;
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  const found = under(event);
  if (found) choose(found.query, found.key);
  draw();
});

canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) {
    const found = under(event);
    if (!found || (cell && found.query === cell.query && found.key === cell.key)) return;
    choose(found.query, found.key);
    requestDraw();
    return;
  }
  const now = { x: event.offsetX, y: event.offsetY };
  if (pointers.size === 1) {
    view.left -= (now.x - before.x) / view.cell;
    view.top -= (now.y - before.y) / view.cell;
    clampView();
    pointers.set(event.pointerId, now);
    requestDraw();
    return;
  }
  const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
  const apart = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
  pointers.set(event.pointerId, now);
  zoom(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
});

for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, (event) => pointers.delete(event.pointerId));
}

canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
  },
  { passive: false },
);

let asked = false;

function requestDraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

// ---- heads: preview and keep --------------------------------------------------------------------------------

async function show(index) {
  shownIndex = index;
  const head = await headNumbered(index);
  if (shownIndex !== index) return; // another was asked for meanwhile
  lookAt(facts.heads[index].layer);
  shown = head;
  const title = `${titleOf(index)}${index === kept ? "" : " (preview)"}`;
  element("one-title").textContent = title;
  canvas.setAttribute("aria-label", `Attention weights of ${title}: ${L} queries by ${S} keys`);
  say();
  draw();
}

/** Turn to a layer: where its queries or keys are others than before, the view starts anew. */
function lookAt(layer) {
  const names = namesOf(layer);
  if (names.queries === queries && names.keys === keys) return;
  ({ queries, keys } = names);
  [L, S] = [queries.length, keys.length];
  cell = null;
  element("value").textContent = "Point at a cell, or focus the map and use the arrow keys.";
  measure();
  Object.assign(view, { left: 0, top: 0, cell: 0 });
  clampView();
}

function keep(index) {
  thumbs[kept].setAttribute("aria-pressed", "false");
  thumbs[kept].tabIndex = -1;
  kept = index;
  thumbs[kept].setAttribute("aria-pressed", "true");
  thumbs[kept].tabIndex = 0;
  return show(index);
}

const thumbs = facts.heads.map((about, index) => {
  const button = document.createElement("button");
  button.type = "button";
  button.tabIndex = index ? -1 : 0;
  button.setAttribute("aria-pressed", String(index === 0));
  button.setAttribute("aria-label", titleOf(index));
  button.title = titleOf(index);
  button.append(document.createElement("canvas"));
  button.addEventListener("mouseenter", () => show(index));
  button.addEventListener("mouseleave", () => show(kept));
  button.addEventListener("focus", () => button.matches(":focus-visible") && show(index));
  button.addEventListener("blur", () => show(kept));
  button.addEventListener("click", () => keep(index));
  button.addEventListener("keydown", (event) => moveThumb(event, index));
  return button;
});

function moveThumb(event, index) {
  const { layer, head } = facts.heads[index];
  const to = {
    ArrowLeft: [layer, head - 1],
    ArrowRight: [layer, head + 1],
    ArrowUp: [layer - 1, head],
    ArrowDown: [layer + 1, head],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  const next = facts.heads.findIndex((about) => about.layer === to[0] && about.head === to[1]);
  if (next < 0) return;
  for (const thumb of thumbs) thumb.tabIndex = -1;
  thumbs[next].tabIndex = 0;
  thumbs[next].focus();
}

function layOut() {
  const most = Math.max(...facts.heads.map((about) => about.head)) + 1;
  const grid = element("thumbs");
  grid.style.gridTemplateColumns = `minmax(3.4rem, max-content) repeat(${most}, minmax(18px, 64px))`;
  const label = (text, kind) => {
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = text;
    grid.append(span);
    return span;
  };
  label("head", "name");
  for (let h = 0; h < most; h++) label(String(h), "name column");
  facts.layers.forEach((layer, i) => {
    label(layer.name, "name").title = layer.name;
    const heads = thumbs.filter((_, index) => facts.heads[index].layer === i);
    grid.append(...heads);
    for (let h = heads.length; h < most; h++) label("", "name");
  });
}

let small = null;

function drawThumbs() {
  const colours = table();
  let start = 0;
  thumbs.forEach((button, index) => {
    const [height, width] = facts.heads[index].thumbnail;
    const picture = button.firstChild;
    picture.width = width;
    picture.height = height;
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      const c = 3 * small[start + i];
      image.data.set([colours[c], colours[c + 1], colours[c + 2], 255], 4 * i);
    }
    picture.getContext("2d").putImageData(image, 0, 0);
    start += width * height;
  });
}

// ---- theme, buttons, beginning ------------------------------------------------------------------------------

function setTheme(theme) {
  root.dataset.theme = theme;
  element("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (small) drawThumbs();
  draw();
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
element("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
element("in").addEventListener("click", () => zoom(1.5));
element("out").addEventListener("click", () => zoom(1 / 1.5));
element("whole").addEventListener("click", showWhole);
element("curve").addEventListener("change", draw);
element("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.download = `${facts.title}, ${titleOf(shownIndex)}.png`.replace(/[\\/:*?"<>|]/g, "-");
  link.href = canvas.toDataURL("image/png");
  link.click();
});
new ResizeObserver(() => {
  const whole = view.cell <= wholeCell() * 1.001;
  measure();
  if (whole) view.cell = 0;
  clampView();
  draw();
}).observe(canvas);

async function begin() {
  setTheme(prefersDark.matches ? "dark" : "light");
  layOut();
  lookAt(0);
  if (L * S > 4096) element("curve").value = "root"; // in a long row most weights are faint
  await show(0);
  small = await stored("thumbnails");
  drawThumbs();
  root.dataset.ready = String(Math.round(performance.now())); // milliseconds until all of the first view is drawn
}

begin();

// The map: a head's weights as coloured cells, with names and numbers where there is room.

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

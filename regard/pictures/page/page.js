// The page: palette and legend, the text of a cell, the overview of heads, the theme.

const root = document.documentElement;
const token = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const table = () => facts.colours[root.dataset.theme];
const titleOf = (index) => `${facts.layers[facts.heads[index].layer].name}, head ${facts.heads[index].head}`;
const visibleToken = (token) => (token.trim() === "" ? token.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥") || "∅" : token);
facts.tokens = facts.tokens.map((tokens) => tokens.map(visibleToken));

let shown = null; // the head on the map
let shownIndex = -1;
let chosen = 0; // the head chosen by a click
let names = { queries: [], keys: [] }; // of the rows and columns of the map

// ---- the map, its colours and the text of a cell ------------------------------------------------------------

/** The colour table and the place of a weight in it, by the chosen curve. */
function palette() {
  const curve = element("curve").value;
  const { least, highest } = shown;
  const low = Math.log(Math.max(least, highest * 1e-6));
  const range = Math.log(highest) - low || 1;
  const share = { linear: (x) => x / highest, root: (x) => Math.sqrt(x / highest), log: (x) => (x <= 0 ? 0 : Math.max(0, (Math.log(x) - low) / range)) }[curve];
  return { colours: table(), index: (x) => Math.round(255 * share(x)) };
}

const map = heatmap({
  canvas: element("map"),
  rows: [],
  columns: [],
  values: [],
  palette,
  token,
  background: "--background",
  longest: [14, 14],
  corner: ["query ↓", "key →"],
  largest: Infinity,
  zoomTo: 160,
  textFrom: 50,
  text(i, j) {
    const digits = Number(shown.text(i * names.keys.length + j)).toPrecision(3);
    return Number(digits) === 0 ? "0" : digits;
  },
  scrolls: false,
  readOnFocus: false,
  onlook: showValue,
});

function showValue() {
  const cell = map.cell();
  const [query, key] = cell ?? [];
  element("value").textContent = cell
    ? `query ${query} “${names.queries[query]}” → key ${key} “${names.keys[key]}”: ${shown.text(query * names.keys.length + key)}`
    : "Point at a cell, or focus the map and use the arrow keys.";
}

function drawLegend() {
  const ramp = element("ramp").getContext("2d");
  const image = ramp.createImageData(256, 1);
  const { index, colours } = palette();
  for (let i = 0; i < 256; i++) {
    const place = 3 * index((shown.highest * i) / 255);
    image.data.set([...colours.slice(place, place + 3), 255], 4 * i);
  }
  ramp.putImageData(image, 0, 0);
  element("highest").textContent = `${Number(shown.highest.toPrecision(3))}, the largest weight of this head`;
}

function draw() {
  if (!shown) return;
  map.draw();
  drawLegend();
}

// ---- heads: preview and choice ------------------------------------------------------------------------------

async function show(index) {
  shownIndex = index;
  const head = await headNumbered(index);
  if (shownIndex !== index) return; // another head was requested meanwhile
  shown = head;
  names = namesOf(facts.heads[index].layer);
  const { queries, keys } = names;
  const [L, S] = [queries.length, keys.length];
  map.update({ values: Array.from({ length: L }, (_, i) => head.values.subarray(i * S, i * S + S)), rows: queries, columns: keys });
  const title = `${titleOf(index)}${index === chosen ? "" : " (preview)"}`;
  element("one-title").textContent = title;
  map.canvas.setAttribute("aria-label", `Attention weights of ${title}: ${L} queries by ${S} keys`);
  showValue();
  draw();
}

function choose(index) {
  thumbs[chosen].setAttribute("aria-pressed", "false");
  thumbs[chosen].tabIndex = -1;
  chosen = index;
  thumbs[chosen].setAttribute("aria-pressed", "true");
  thumbs[chosen].tabIndex = 0;
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
  button.addEventListener("mouseleave", () => show(chosen));
  button.addEventListener("focus", () => button.matches(":focus-visible") && show(index));
  button.addEventListener("blur", () => show(chosen));
  button.addEventListener("click", () => choose(index));
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

// ---- theme, buttons, start ----------------------------------------------------------------------------------

function setTheme(theme) {
  root.dataset.theme = theme;
  element("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (small) drawThumbs();
  draw();
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));
element("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
element("in").addEventListener("click", () => map.zoom(1.5));
element("out").addEventListener("click", () => map.zoom(1 / 1.5));
element("whole").addEventListener("click", map.whole);
element("curve").addEventListener("change", draw);
element("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.download = `${facts.title}, ${titleOf(shownIndex)}.png`.replace(/[\\/:*?"<>|]/g, "-");
  link.href = map.canvas.toDataURL("image/png");
  link.click();
});
async function begin() {
  setTheme(prefersDark.matches ? "dark" : "light");
  layOut();
  const { queries, keys } = namesOf(0);
  if (queries.length * keys.length > 4096) element("curve").value = "root"; // in long rows most weights are small
  await show(0);
  small = await stored("thumbnails");
  drawThumbs();
  map.drawNow();
  root.dataset.ready = String(Math.round(performance.now())); // milliseconds until everything is drawn
}

begin();

// The page: palette and legend, the text of a cell, the overview of heads, the theme. report.js adds what a recording
// reports. The heads of all runs and batch items are stored one after the other: run 0, item 0; run 0, item 1; …

const root = document.documentElement;
const token = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const table = () => facts.colours[root.dataset.theme];
const visibleToken = (token) => (token.trim() === "" ? token.replace(/ /g, "␣").replace(/\n/g, "↵").replace(/\t/g, "⇥") || "∅" : token);
facts.tokens = facts.tokens.map((tokens) => tokens.map(visibleToken));

const RUNS = ["first run", "second run"];
const items = facts.report?.items ?? [0];
const runs = facts.report?.runs.length ?? 1;
const headCount = facts.heads.length / items.length / runs;
const heads = facts.heads.slice(0, headCount); // layer and number of each head, the same in every run and item
const titleOf = (index) => `${facts.layers[heads[index].layer].name}, head ${heads[index].head}`;
const storedAt = (index, run) => (run * items.length + item) * headCount + index;

let item = 0; // place of the batch item in `items`
let shown = []; // the head on the map of each run
let shownIndex = -1;
let chosen = 0; // the head chosen by a click
let names = [{ queries: [], keys: [] }]; // of the rows and columns of each map

// ---- the maps, their colours and the text of a cell ---------------------------------------------------------

/** The colour table and the place of a weight in it, by the chosen curve; the same for both runs. */
function palette() {
  const curve = element("curve").value;
  const highest = Math.max(...shown.map((head) => head.highest));
  const least = Math.min(...shown.map((head) => head.least));
  const low = Math.log(Math.max(least, highest * 1e-6));
  const range = Math.log(highest) - low || 1;
  const share = { linear: (x) => x / highest, root: (x) => Math.sqrt(x / highest), log: (x) => (x <= 0 ? 0 : Math.max(0, (Math.log(x) - low) / range)) }[curve];
  return { colours: table(), highest, index: (x) => (Number.isNaN(x) ? -1 : Math.round(255 * share(x))) };
}

const newMap = (canvas, run) =>
  heatmap({
    canvas,
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
      const digits = Number(valueAt(run, i, j)).toPrecision(3);
      return Number(digits) === 0 ? "0" : digits;
    },
    scrolls: false,
    readOnFocus: false,
    onlook: () => showValue(run),
  });
const map = newMap(element("map"), 0);
const maps = runs > 1 ? [map, newMap(element("second-map"), 1)] : [map];

const valueAt = (run, query, key) => shown[run].text(query * names[run].keys.length + key);

function showValue(run = 0) {
  const cell = maps[run].cell();
  if (!cell) {
    element("value").textContent = "Point at a cell, or focus the map and use the arrow keys.";
    return;
  }
  const [query, key] = cell;
  const pair = (which) => `query ${query} “${names[which].queries[query]}” → key ${key} “${names[which].keys[key]}”`;
  let text = `${pair(run)}: ${valueAt(run, query, key)}`;
  if (runs > 1) {
    const same = pair(0) === pair(1) ? `; ${RUNS[1 - run]}: ${valueAt(1 - run, query, key)}` : "";
    text = `${RUNS[run]}, ${text}${same}`;
  }
  element("value").textContent = text;
}

function drawLegend() {
  const ramp = element("ramp").getContext("2d");
  const image = ramp.createImageData(256, 1);
  const { index, colours, highest } = palette();
  for (let i = 0; i < 256; i++) {
    const place = 3 * index((highest * i) / 255);
    image.data.set([...colours.slice(place, place + 3), 255], 4 * i);
  }
  ramp.putImageData(image, 0, 0);
  element("highest").textContent = `${Number(highest.toPrecision(3))}, the largest weight of this head`;
}

function draw() {
  if (shown.length === 0) return;
  for (const map of maps) map.draw();
  drawLegend();
}

// ---- heads: preview and choice ------------------------------------------------------------------------------

async function show(index) {
  shownIndex = index;
  const [wanted, found] = [`${item} ${index}`, await Promise.all(maps.map((_, run) => headNumbered(storedAt(index, run))))];
  if (wanted !== `${item} ${shownIndex}`) return; // another head was requested meanwhile
  shown = found;
  names = maps.map((_, run) => namesOf(facts.heads[storedAt(index, run)].layer));
  const title = `${titleOf(index)}${index === chosen ? "" : " (preview)"}`;
  element("one-title").textContent = title;
  maps.forEach((map, run) => {
    const { queries, keys } = names[run];
    const [L, S] = [queries.length, keys.length];
    map.update({ values: Array.from({ length: L }, (_, i) => shown[run].values.subarray(i * S, i * S + S)), rows: queries, columns: keys });
    map.canvas.setAttribute("aria-label", `Attention weights of ${title}${runs > 1 ? `, ${RUNS[run]}` : ""}: ${L} queries by ${S} keys`);
  });
  if (runs > 1) ["caption", "second-caption"].forEach((id, run) => (element(id).textContent = `${RUNS[run]}: ${names[run].queries.join(" ")}`));
  showValue();
  draw();
  showStatistics(index);
}

function choose(index) {
  for (const thumb of thumbs[chosen]) {
    thumb.setAttribute("aria-pressed", "false");
    thumb.tabIndex = -1;
  }
  chosen = index;
  for (const thumb of thumbs[chosen]) {
    thumb.setAttribute("aria-pressed", "true");
    thumb.tabIndex = 0;
  }
  return show(index);
}

/** Make an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const thumbs = heads.map((_, index) =>
  maps.map((_, run) => {
    const label = `${titleOf(index)}${runs > 1 ? `, ${RUNS[run]}` : ""}`;
    const button = make("button", { type: "button", tabindex: index ? -1 : 0, "aria-pressed": String(index === 0), "aria-label": label, title: label }, make("canvas"));
    button.addEventListener("mouseenter", () => show(index));
    button.addEventListener("mouseleave", () => show(chosen));
    button.addEventListener("focus", () => button.matches(":focus-visible") && show(index));
    button.addEventListener("blur", () => show(chosen));
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", (event) => moveThumb(event, index, run));
    return button;
  }),
);

function moveThumb(event, index, run) {
  const { layer, head } = heads[index];
  const to = {
    ArrowLeft: [layer, head - 1],
    ArrowRight: [layer, head + 1],
    ArrowUp: [layer - 1, head],
    ArrowDown: [layer + 1, head],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  const next = heads.findIndex((about) => about.layer === to[0] && about.head === to[1]);
  if (next < 0) return;
  for (const both of thumbs) both[run].tabIndex = -1;
  thumbs[next][run].tabIndex = 0;
  thumbs[next][run].focus();
}

function layOut() {
  const most = Math.max(...heads.map((about) => about.head)) + 1;
  maps.forEach((_, run) => {
    const grid = make("div", { class: "grid", role: "group", "aria-label": runs > 1 ? `Layers × heads, ${RUNS[run]}` : "Layers × heads" });
    grid.style.gridTemplateColumns = `minmax(3.4rem, max-content) repeat(${most}, minmax(18px, 64px))`;
    const label = (text, kind) => grid.append(make("span", { class: kind, title: text }, text));
    label("head", "name");
    for (let h = 0; h < most; h++) label(String(h), "name column");
    for (let layer = 0; layer <= heads.at(-1).layer; layer++) {
      label(facts.layers[layer].name, "name");
      const row = thumbs.filter((_, index) => heads[index].layer === layer);
      grid.append(...row.map((both) => both[run]));
      for (let h = row.length; h < most; h++) label("", "name");
    }
    element("thumbs").append(make("div", {}, ...(runs > 1 ? [make("h3", {}, RUNS[run])] : []), grid));
  });
}

let small = null;
const starts = [0]; // of each head's thumbnail
for (const { thumbnail } of facts.heads) starts.push(starts.at(-1) + thumbnail[0] * thumbnail[1]);

function drawThumbs() {
  const colours = table();
  thumbs.forEach((both, index) =>
    both.forEach((button, run) => {
      const at = storedAt(index, run);
      const [height, width] = facts.heads[at].thumbnail;
      const picture = button.firstChild;
      picture.width = width;
      picture.height = height;
      const image = new ImageData(width, height);
      for (let i = 0; i < width * height; i++) {
        const c = 3 * small[starts[at] + i];
        image.data.set([colours[c], colours[c + 1], colours[c + 2], 255], 4 * i);
      }
      picture.getContext("2d").putImageData(image, 0, 0);
    }),
  );
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
element("in").addEventListener("click", () => maps.forEach((map) => map.zoom(1.5)));
element("out").addEventListener("click", () => maps.forEach((map) => map.zoom(1 / 1.5)));
element("whole").addEventListener("click", () => maps.forEach((map) => map.whole()));
element("curve").addEventListener("change", draw);
element("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.download = `${facts.title}, ${titleOf(shownIndex)}.png`.replace(/[\\/:*?"<>|]/g, "-");
  link.href = beside(maps.map((map) => map.canvas)).toDataURL("image/png");
  link.click();
});

/** One picture of several canvases, side by side. */
function beside(canvases) {
  if (canvases.length === 1) return canvases[0];
  const whole = make("canvas", { width: canvases.reduce((sum, { width }) => sum + width, 0), height: Math.max(...canvases.map(({ height }) => height)) });
  let left = 0;
  for (const canvas of canvases) {
    whole.getContext("2d").drawImage(canvas, left, 0);
    left += canvas.width;
  }
  return whole;
}

async function begin() {
  setTheme(prefersDark.matches ? "dark" : "light");
  layOut();
  layOutReport();
  const { queries, keys } = namesOf(0);
  if (queries.length * keys.length > 4096) element("curve").value = "root"; // in long rows most weights are small
  await choose(firstHead());
  small = await stored("thumbnails");
  drawThumbs();
  for (const map of maps) map.drawNow();
  root.dataset.ready = String(Math.round(performance.now())); // milliseconds until everything is drawn
}

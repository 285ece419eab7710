// What the reader does: the cell asked about, pointer and keys, the heads, the theme.

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

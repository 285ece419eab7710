// The frame of every exported picture: what is shown, the sentence or the settings below it, the project and the link.
//
// titledPicture({ title, note, drawings }, link) → <svg>
// The picture a view returns: { title, note, drawings }; note may be empty.
//   drawings   <svg> elements with a viewBox, or canvases, one below the other
// textPicture(root, title) → the same for a view that consists of text: { title, note, drawings }

import { token } from "./colour.js";
import { s } from "./dom.js";
import { t } from "./text.js";
import { FONT, lineWidth, lowered, wrapped } from "./words.js";

const EDGE = 32;
const NARROWEST = 640;
const READABLE = 1000; // the frame of a wider drawing has larger letters
const MOST_LINES = 3; // of the link; a longer one is replaced by the link of the view

export function titledPicture({ title, note, drawings }, link) {
  const sizes = drawings.map(sizeOf);
  const inner = Math.max(NARROWEST, ...sizes.map(([width]) => width));
  const scale = Math.max(1, inner / READABLE);
  const marks = [];
  let y = EDGE * scale;
  const write = (text, size, { weight = 400, fill = token("--ink"), after = 0 } = {}) => {
    for (const row of wrapped(text, inner, size * scale, weight)) {
      y += 1.35 * size * scale;
      marks.push(s("text", { x: EDGE * scale, y: y.toFixed(1), "font-size": (size * scale).toFixed(1), "font-weight": weight, fill }, lowered(row)));
    }
    y += after * scale;
  };
  y -= 8 * scale;
  write(title, 24, { weight: 700, after: 2 });
  if (note) write(note, 16, { fill: token("--faint") });
  y += 22 * scale;
  drawings.forEach((drawing, i) => {
    marks.push(placed(drawing, EDGE * scale, y, sizes[i]));
    y += sizes[i][1] + 16 * scale;
  });
  y += 8 * scale;
  const width = inner + 2 * EDGE * scale;
  marks.push(s("line", { x1: EDGE * scale, x2: width - EDGE * scale, y1: y, y2: y, stroke: token("--line"), "stroke-width": scale }));
  y += 4 * scale;
  const project = `regard · ${t("picture.project")}`;
  write(project, 14, { weight: 700 });
  const shown = [link, link.replace(/\?.*/, "")].find((one) => broken(one, inner, 13 * scale).length <= MOST_LINES) ?? "";
  for (const row of broken(shown, inner, 13 * scale)) write(row, 13, { fill: token("--blue") });
  const height = Math.ceil(y + 0.7 * EDGE * scale);
  return s(
    "svg",
    { viewBox: `0 0 ${Math.ceil(width)} ${height}`, width: Math.ceil(width), height, "font-family": FONT, role: "img", "aria-label": title },
    s("rect", { width: Math.ceil(width), height, fill: token("--surface") }),
    marks,
  );
}

function sizeOf(drawing) {
  if (drawing instanceof HTMLCanvasElement) return [drawing.width / 2, drawing.height / 2];
  return drawing.getAttribute("viewBox").split(" ").slice(2).map(Number);
}

function placed(drawing, x, y, [width, height]) {
  const at = { x: x.toFixed(1), y: y.toFixed(1), width, height };
  if (drawing instanceof HTMLCanvasElement) return s("image", { ...at, href: drawing.toDataURL("image/png") });
  for (const [name, value] of Object.entries(at)) drawing.setAttribute(name, value);
  for (const name of ["class", "tabindex", "role", "aria-label"]) drawing.removeAttribute(name);
  return drawing;
}

/** A link in lines of a width, broken at any character. */
function broken(text, width, size) {
  const rows = [""];
  for (const letter of text) {
    if (lineWidth(rows.at(-1) + letter, size) > width) rows.push("");
    rows[rows.length - 1] += letter;
  }
  return rows;
}

// ---- views that consist of text -----------------------------------------------------------------------------------

const BLOCKS = "h2, h3, h4, p, li, tr, dt, dd, figcaption, pre, legend, textarea, .cells";
const LEFT_OUT = "[aria-hidden=true], .visually-hidden, .remark, nav, label, select, button:not(li button), button.primary.small, button[aria-label]";
const SIZES = { H2: 20, H3: 17, H4: 15 };
const TEXT_WIDTH = 760;
const MOST_ROWS = 60;
const FIXED_SPACE = "\u00a0"; // spaces of an SVG text are collapsed
const CELL_SPACE = FIXED_SPACE.repeat(4);

/** The visible text of a view as a picture: headings, paragraphs, lists, tables and what has been typed. */
export function textPicture(root, title) {
  const blocks = blocksOf(root);
  const heading = blocks.find(({ block }) => block.tagName in SIZES);
  const rows = blocks.filter((one) => one !== heading).flatMap(({ block, lines }) => {
    const size = SIZES[block.tagName] ?? 14;
    const weight = block.tagName in SIZES ? 700 : 400;
    const code = block.matches("pre, textarea");
    const broken = code ? lines : lines.flatMap((line) => wrapped(line, TEXT_WIDTH, size, weight));
    return broken.map((text, i) => ({ text, size, weight, code, gap: i ? 0 : weight > 400 ? 12 : 5 }));
  });
  const cut = rows.length > MOST_ROWS ? [...rows.slice(0, MOST_ROWS), { text: "…", size: 14, weight: 400, gap: 0 }] : rows;
  let y = 0;
  const marks = cut.map(({ text, size, weight, code, gap }) => {
    y += gap + 1.4 * size;
    return s("text", { y: y.toFixed(1), "font-size": size, "font-weight": weight, fill: token("--ink"), "font-family": code ? "monospace" : null }, code ? text.replaceAll(" ", FIXED_SPACE) : lowered(text));
  });
  return { title: heading?.lines[0] ?? title, note: heading ? title : "", drawings: [s("svg", { viewBox: `0 0 ${TEXT_WIDTH} ${Math.ceil(y + 8)}` }, marks)] };
}

/** The blocks of a view with their lines of text, in the order of the page. */
function blocksOf(root) {
  const blocks = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    const block = element.closest(BLOCKS);
    if (!block || element.closest(LEFT_OUT) || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (node === element && node.matches("textarea")) blocks.push({ block, lines: [node.value] });
    else if (node === element && node.matches(".cells input")) add(block, CELL_SPACE + (node.value || "?"));
    else if (node === element && node.matches("td + td, th + td, th + th")) add(block, CELL_SPACE);
    else if (node !== element && block.tagName !== "TEXTAREA") add(block, wordsOf(node.data, element, block));
  }
  return blocks.map(({ block, lines }) => ({ block, lines: block.matches("pre, textarea") ? lines.join("").split("\n") : [lines.join("").replace(/^ +| +$/g, "")] })).filter(({ lines }) => lines.some(Boolean));

  function add(block, text) {
    const last = blocks.at(-1);
    if (last?.block.tagName === "DT" && block.tagName === "DD") blocks[blocks.length - 1] = { block, lines: [...last.lines, ": ", text] };
    else if (last?.block !== block) blocks.push({ block, lines: [text] });
    else if (/[\p{L}\d.]$/u.test(last.lines.at(-1)) && /^[\p{L}\d]/u.test(text)) last.lines.push(" ", text);
    else last.lines.push(text);
  }
}

function wordsOf(text, element, block) {
  if (block.tagName === "PRE") return text;
  const words = text.replace(/\s+/g, " ");
  return element.closest("sub") ? `_${words}` : words;
}

// The board as SVG, with a button over each column for mouse, touch, keyboard and screen readers.

import { landing, meaning, SIGNS } from "./rules.js";

const U = 100; // side of a square
const PAD = 22;
const TOP = 120; // height of the area above the board that shows the score of each column
const BARE = 94; // part of it that is cut off if no scores are shown
const FOOT = 46;
const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

const sizeOf = ({ rows, columns }) => ({ width: columns * U + 2 * PAD, height: TOP + rows * U + PAD + FOOT });

/** Centre of a square. */
const middle = ({ columns }, square, top = TOP) => [PAD + ((square % columns) + 0.5) * U, top + (Math.floor(square / columns) + 0.5) * U];

/** A stone with its colour and, for readers who cannot distinguish the colours, a sign. */
export function stone(s, player, x, y, r = 42, extra = {}) {
  const sign = 0.36 * r;
  return s(
    "g",
    { class: `stone stone-${player}`, ...extra },
    s("circle", { cx: x, cy: y, r, class: "stone-body" }),
    s("circle", { cx: x, cy: y, r: 0.76 * r, class: "stone-edge", "stroke-width": 0.07 * r }),
    player === 1
      ? s("path", { d: `M${x - sign} ${y - sign}L${x + sign} ${y + sign}M${x + sign} ${y - sign}L${x - sign} ${y + sign}`, class: "stone-sign", "stroke-width": 0.2 * r })
      : s("circle", { cx: x, cy: y, r: 0.38 * r, class: "stone-sign", "stroke-width": 0.2 * r }),
  );
}

/** A small stone next to text. */
export const token = (s, player) => s("svg", { viewBox: "0 0 100 100", class: "token", "aria-hidden": "true" }, stone(s, player, 50, 50, 48));

/** A triangle up for a win, a bar for a draw, a triangle down for a loss; readable without colour. */
export function verdictShape(s, kind, x, y, size) {
  const paths = {
    win: `M${x} ${y - size}L${x + size} ${y + 0.8 * size}H${x - size}Z`,
    loss: `M${x} ${y + size}L${x + size} ${y - 0.8 * size}H${x - size}Z`,
    draw: `M${x - size} ${y - 0.62 * size}H${x + size}V${y - 0.12 * size}H${x - size}ZM${x - size} ${y + 0.22 * size}H${x + size}V${y + 0.72 * size}H${x - size}Z`,
  };
  return s("path", { d: paths[kind], class: "verdict-shape" });
}

/** A verdict as an icon with text. */
export function verdict(kit, kind, count) {
  const text = kind === "draw" ? kit.t("four.verdict.draw") : kit.t(`four.verdict.${kind}`, { n: count });
  return kit.h("span", { class: `verdict verdict-${kind}` }, kit.s("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, verdictShape(kit.s, kind, 10, 10, 7)), text);
}

/** Return the board as { element, draw(board, …), focus(column) }; `onplay(column)` is called when a column is chosen. */
export function boardView(kit, { onplay }) {
  const { h, s, t } = kit;
  const picture = s("svg", { class: "board", "aria-hidden": "true", "font-family": FONT });
  const columns = h("div", { class: "board-columns", role: "group", "aria-label": t("four.columns") });
  const element = h("div", { class: "board-stage" }, picture, columns);
  let buttons = [];
  let place = 3;
  let pointed = -1;
  let shown = null; // arguments of the last drawing
  let fall = { moves: null, began: 0 }; // the falling stone; its animation continues if the board is drawn again
  let size = "";

  function build(board) {
    size = `${board.rows}x${board.columns}`;
    place = board.columns >> 1;
    pointed = -1;
    columns.style.setProperty("--left", `${(100 * PAD) / sizeOf(board).width}%`);
    columns.style.setProperty("--count", board.columns);
    buttons = Array.from({ length: board.columns }, (_, column) =>
      h("button", {
        type: "button",
        class: "board-column",
        dataset: { column: SIGNS[column] },
        tabindex: column === place ? 0 : -1,
        onclick: () => onplay(column),
        onpointerenter: (event) => event.pointerType === "mouse" && point(column),
        onpointerleave: () => point(-1),
        onfocus: () => {
          tabTo(column);
          point(column);
        },
        onblur: () => point(-1),
      }),
    );
    kit.put(columns, buttons);
  }

  function tabTo(column) {
    buttons[place].tabIndex = -1;
    place = column;
    buttons[place].tabIndex = 0;
  }

  function point(column) {
    if (pointed === column) return;
    pointed = column;
    drawGhost();
  }

  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown) return;
    const last = shown.board.columns - 1;
    const to = { ArrowLeft: Math.max(0, place - 1), ArrowRight: Math.min(last, place + 1), Home: 0, End: last }[event.key];
    if (to !== undefined) buttons[to].focus();
    else if (event.key === "ArrowDown") onplay(place);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const ghosts = s("g", { class: "ghosts" });

  function drawGhost() {
    if (!shown) return;
    const { board, waiting } = shown;
    const open = pointed >= 0 && board.legal.includes(pointed) && !waiting;
    kit.put(ghosts, open ? stone(s, board.turn, ...middle(board, landing(board, pointed)), 42, { class: `stone stone-${board.turn} ghost` }) : null);
  }

  /** Draw a position. scores: one per column, or null; thinking: more scores will follow; waiting: no move can be played now. */
  function draw(board, { scores = null, thinking = false, waiting = false, sure = true } = {}) {
    if (size !== `${board.rows}x${board.columns}`) build(board);
    const before = shown?.board.moves;
    const dropped = before !== undefined && board.moves.length === before.length + 1 && board.moves.startsWith(before) && shown.board.columns === board.columns;
    shown = { board, waiting };
    if (dropped) fall = { moves: board.moves, began: performance.now() };
    else if (board.moves !== fall.moves) fall = { moves: null, began: 0 };
    const { width, height } = sizeOf(board);
    const cut = scores || thinking ? 0 : BARE;
    picture.setAttribute("viewBox", `0 ${cut} ${width} ${height - cut}`);
    const solved = scores?.filter((score) => score !== null) ?? [];
    const best = solved.length > 0 && !thinking && sure ? Math.max(...solved) : null;
    kit.put(
      picture,
      s("g", { class: "stones" }, board.squares.map((player, square) => {
        if (!player) return null;
        const [x, y] = middle(board, square);
        if (square !== board.last || fall.moves !== board.moves || kit.reducedMotion()) return stone(s, player, x, y);
        const far = Math.floor(square / board.columns) + 1;
        const style = { "--fall": `${-far * U}px`, "--time": `${180 + 60 * far}ms`, "animation-delay": `${fall.began - performance.now()}ms` };
        return stone(s, player, x, y, 42, { class: `stone stone-${player} dropping`, style });
      })),
      ghosts,
      s("path", { class: "frame", d: frame(board), "fill-rule": "evenodd" }),
      board.squares.map((_, square) => {
        const [cx, cy] = middle(board, square);
        return s("circle", { cx, cy, r: 42, class: "rim" });
      }),
      board.last >= 0 && !board.winner ? lastMark(board) : null,
      board.lines.map((line) => winMark(board, line)),
      board.heights.map((_, column) => s("text", { x: PAD + (column + 0.5) * U, y: TOP + board.rows * U + PAD + 34, class: "column-number" }, SIGNS[column])),
      scores || thinking ? board.legal.map((column) => chip(board, column, scores?.[column] ?? null, best, thinking)) : null,
    );
    drawGhost();
    buttons.forEach((button, column) => {
      const open = board.legal.includes(column);
      button.setAttribute("aria-disabled", String(!open || waiting));
      button.setAttribute("aria-label", label(board, column, scores?.[column] ?? null));
    });
  }

  function label(board, column, score) {
    const facts = { column: SIGNS[column], height: board.heights[column], row: board.heights[column] + 1 };
    if (!board.legal.includes(column)) return board.over ? t("four.column-over", facts) : t("four.column-full", facts);
    const sentence = t("four.column-open", facts);
    if (score === null) return sentence;
    const { kind, count } = meaning(score, board);
    return `${sentence} ${kind === "draw" ? t("four.verdict.draw") : t(`four.verdict.${kind}`, { n: count })}`;
  }

  /** The verdict on a column: icon, word and number of moves. */
  function chip(board, column, score, best, thinking) {
    const x = PAD + (column + 0.5) * U;
    const kind = score === null ? "unknown" : meaning(score, board).kind;
    const group = s("g", { class: `chip chip-${kind}${score !== null && score === best ? " best" : ""}`, dataset: { column: SIGNS[column], score: score === null ? "" : String(score) } });
    group.append(s("rect", { x: x - 46, y: 6, width: 92, height: 88, rx: 14, class: "chip-body" }));
    if (score === null) {
      group.append(s("text", { x, y: 58, class: "chip-open" }, thinking ? "…" : "?"));
      return group;
    }
    const { count } = meaning(score, board);
    group.append(verdictShape(s, kind, x, kind === "draw" ? 30 : 25, 12));
    group.append(s("text", { x, y: kind === "draw" ? 75 : 61, class: "chip-word" }, t(`four.chip.${kind}`)));
    if (kind !== "draw") group.append(s("text", { x, y: 85, class: "chip-count" }, t("four.chip.in", { n: count })));
    return group;
  }

  function lastMark(board) {
    const [cx, cy] = middle(board, board.last);
    return s("circle", { cx, cy, r: 45, class: "last" });
  }

  function winMark(board, line) {
    const [[x1, y1], [x2, y2]] = [line[0], line.at(-1)].map((square) => middle(board, square));
    return s(
      "g",
      { class: "winning" },
      line.map((square) => {
        const [cx, cy] = middle(board, square);
        return s("circle", { cx, cy, r: 45, class: "winning-ring" });
      }),
      s("line", { x1, y1, x2, y2, class: "winning-under" }),
      s("line", { x1, y1, x2, y2, class: "winning-line" }),
    );
  }

  return { element, draw, picture, focus: (column = place) => buttons[column]?.focus() };
}

/** The frame of the board with round holes; the stones are behind it. */
function frame(board, top = TOP) {
  const [w, hgt] = [board.columns * U + 28, board.rows * U + 28];
  const [x, y, r] = [PAD - 14, top - 14, 26];
  const outer = `M${x + r} ${y}h${w - 2 * r}a${r} ${r} 0 0 1 ${r} ${r}v${hgt - 2 * r}a${r} ${r} 0 0 1 ${-r} ${r}h${-(w - 2 * r)}a${r} ${r} 0 0 1 ${-r} ${-r}v${-(hgt - 2 * r)}a${r} ${r} 0 0 1 ${r} ${-r}Z`;
  return (
    outer +
    board.squares
      .map((_, square) => {
        const [cx, cy] = middle(board, square, top);
        return `M${cx - 42} ${cy}a42 42 0 1 0 84 0a42 42 0 1 0 -84 0Z`;
      })
      .join("")
  );
}

/** A small board coloured by the weights of one head from one square. Squares are numbered as in the network. */
export function weightsBoard(kit, board, weights, square, { most, label = null }) {
  const { s } = kit;
  const [width, height] = [board.columns * U + 16, board.rows * U + 16];
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "weights-board", role: label ? "img" : null, "aria-label": label, "aria-hidden": label ? null : "true" },
    board.squares.map((player, at) => {
      const [x, y] = [8 + (at % board.columns) * U, 8 + Math.floor(at / board.columns) * U];
      return [
        s("rect", { x: x + 3, y: y + 3, width: U - 6, height: U - 6, rx: 12, fill: kit.colour.css(kit.colour.weightColour(weights[at] / (most || 1))), class: "weight" }),
        player ? stone(s, player, x + 50, y + 50, 30) : null,
      ];
    }),
    s("rect", { x: 8 + (square % board.columns) * U + 2, y: 8 + Math.floor(square / board.columns) * U + 2, width: U - 4, height: U - 4, rx: 14, class: "from-square" }),
  );
}

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-linecap", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-weight", "text-anchor"];

/** Return a copy of the picture with the style sheet's properties written into its attributes. */
export function standing(picture) {
  const copy = picture.cloneNode(true);
  const [from, to] = [picture, copy].map((one) => [...one.querySelectorAll("*")]);
  to.forEach((one, i) => {
    const look = getComputedStyle(from[i]);
    for (const name of LOOKS) one.setAttribute(name, look.getPropertyValue(name));
    for (const name of ["class", "style", "data-column", "data-score"]) one.removeAttribute(name);
  });
  const ghost = from.findIndex((one) => one.classList.contains("ghosts"));
  to[ghost]?.remove();
  return copy;
}

// Analysis of a game by exact scores: the loss of each move, better moves, and a graph of the value.

import { bestOf, boardOf, meaning, SIGNS } from "./rules.js";

const SIZE = { width: 760, height: 230, left: 58, right: 8, top: 16, bottom: 30 };

/** Return every move with its analysis: { ply, player, column, known, lost, got, best, better, only, value }. */
export function judgedMoves(moves, plies, size) {
  return [...moves].map((sign, ply) => {
    const before = boardOf(moves.slice(0, ply), size);
    const column = SIGNS.indexOf(sign);
    const scores = plies[ply];
    const move = { ply, sign, column, player: before.turn, before, known: Boolean(scores) };
    if (!scores) return move;
    const best = Math.max(...scores.filter((score) => score !== null));
    const got = scores[column];
    const lost = Math.sign(best) - Math.sign(got);
    const keeps = scores.filter((score) => score !== null && Math.sign(score) === Math.sign(best)).length;
    const choices = scores.filter((score) => score !== null).length;
    const kind = lost === 2 ? "blunder" : lost === 1 ? "mistake" : got < best ? "slower" : keeps === 1 && choices > 1 && best >= 0 ? "only" : "best";
    return { ...move, best, got, lost, kind, better: bestOf(scores), value: best * (before.turn === 1 ? 1 : -1) };
  });
}

export const MARKS = { blunder: "??", mistake: "?", slower: "?!", only: "!", best: "" };

/** Return the value of the final position for the first player; null if the game is not over. */
function endValue(board) {
  if (board.winner === 0) return board.full ? 0 : null;
  const worth = Math.floor((board.rows * board.columns + 2 - board.stones) / 2);
  return board.winner === 1 ? worth : -worth;
}

/** The graph: one bar per position, upwards if the first player wins under best play, downwards if the second does. */
export function graph(kit, { judged, end, plies, at, onpick, wide }) {
  const { s, t } = kit;
  const values = judged.map((move) => (move.known ? move.value : null));
  const scores = plies[judged.length];
  if (scores) values.push(Math.max(...scores.filter((score) => score !== null)) * (end.turn === 1 ? 1 : -1));
  else values.push(end.over ? endValue(end) : null);
  const most = Math.max(6, ...values.filter((value) => value !== null).map(Math.abs));
  const whole = Math.min(SIZE.width, Math.max(300, wide - 40)); // narrower on phones, so that text is not scaled down
  const [width, height] = [whole - SIZE.left - SIZE.right, SIZE.height - SIZE.top - SIZE.bottom];
  const step = width / values.length;
  const zero = SIZE.top + height / 2;
  const y = (value) => zero - (value / most) * (height / 2 - 4);
  const bars = values.map((value, ply) => {
    const x = SIZE.left + ply * step;
    const move = judged[ply];
    const lost = move?.known && move.lost > 0;
    const title = ply === judged.length && end.over ? t("four.bar-end", { ply }) : value === null ? t("four.bar-unknown", { ply }) : t("four.bar", { ply, value: describeValue(kit, value, ply, end) });
    return s(
      "g",
      { class: `bar-ply${ply === at ? " here" : ""}`, dataset: { ply, value: value === null ? "" : String(value) }, onclick: () => onpick(ply) },
      s("title", {}, title),
      s("rect", { x, y: SIZE.top, width: step, height, class: "bar-place" }),
      value === null
        ? s("text", { x: x + step / 2, y: zero + 5, class: "bar-open" }, "?")
        : s("rect", { x: x + 0.12 * step, width: 0.76 * step, y: value === 0 ? zero - 2 : Math.min(y(value), zero), height: value === 0 ? 4 : Math.abs(y(value) - zero), rx: Math.min(3, 0.2 * step), class: `bar-value bar-${value > 0 ? 1 : value < 0 ? 2 : 0}` }),
      lost ? s("text", { x: x + step / 2, y: value < 0 ? zero - 6 : zero + 18, class: "bar-mark", style: { "font-size": `${Math.min(14, Math.max(9, 0.85 * step))}px` } }, MARKS[move.kind]) : null,
    );
  });
  const ticks = values.map((_, ply) => (ply % 5 === 0 ? s("text", { x: SIZE.left + (ply + 0.5) * step, y: SIZE.height - 10, class: "graph-tick" }, String(ply)) : null));
  return s(
    "svg",
    { viewBox: `0 0 ${whole} ${SIZE.height}`, class: "game-graph", role: "img", "aria-label": t("four.graph") },
    bars,
    s("line", { x1: SIZE.left, x2: SIZE.left + width, y1: zero, y2: zero, class: "graph-zero" }),
    s("text", { x: SIZE.left - 8, y: SIZE.top + 14, class: "graph-side" }, t("four.graph-first")),
    s("text", { x: SIZE.left - 8, y: zero + 4, class: "graph-side" }, t("four.graph-draw")),
    s("text", { x: SIZE.left - 8, y: SIZE.top + height - 4, class: "graph-side" }, t("four.graph-second")),
    ticks,
  );
}

function describeValue(kit, value, ply, { rows, columns }) {
  if (value === 0) return kit.t("four.verdict.draw");
  const player = value > 0 ? 1 : 2;
  const sameSide = player === 1 + (ply % 2);
  const { count } = meaning(sameSide ? Math.abs(value) : -Math.abs(value), { rows, columns, stones: ply });
  return kit.t("four.wins-in", { player: kit.t(`four.player.${player}`), n: Math.max(count, 0) });
}

// The analysed game: its value at every move, the mistakes, and better moves.

import { token, verdict } from "./board.js";
import { graph, judgedMoves, MARKS } from "./game.js";
import { boardOf, meaning, SIGNS } from "./rules.js";

/** A card with the graph of the game and its mistakes, and a stop button while the analysis runs. */
export function analysisOf(kit, { moves, plies, thinking, size, at, wide, goTo, stop }) {
  const { h, t } = kit;
  const judged = judgedMoves(moves, plies, size);
  const solved = judged.filter((move) => move.known);
  const wrong = solved.filter((move) => move.lost > 0);
  const count = (...kinds) => solved.filter((move) => kinds.includes(move.kind)).length;
  const counts = { known: solved.length, all: judged.length, best: count("best", "only"), slower: count("slower"), mistakes: count("mistake"), blunders: count("blunder") };
  const unknown = judged.length - solved.length;
  return h(
    "section",
    { class: "card", "aria-label": t("four.analysis-of") },
    h(
      "div",
      { class: "analysis-head" },
      h("h2", {}, t("four.analysis-of")),
      thinking ? h("p", { class: "thinking" }, t("four.analysing", { done: solved.length, of: judged.length })) : null,
      thinking ? h("button", { type: "button", class: "quiet small", onclick: stop }, t("four.stop")) : null,
    ),
    h(
      "div",
      { class: "analysis-parts" },
      h(
        "div",
        {},
        graph(kit, { judged, end: boardOf(moves, size), plies, at, onpick: goTo, wide }),
        h("p", { class: "summary" }, t("four.summary", counts), unknown > 0 && !thinking ? ` ${t("four.summary-open", { unknown })}` : ""),
        wrong.length === 0 && solved.length > 0 && !thinking ? h("p", { class: "remark" }, t("four.no-mistakes")) : null,
      ),
      wrong.length > 0 ? mistakes(kit, wrong, goTo) : null,
    ),
  );
}

function mistakes(kit, wrong, goTo) {
  const { h, t } = kit;
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("four.mistakes") },
    h(
      "table",
      { class: "mistakes" },
      h("thead", {}, h("tr", {}, ["ply", "played", "became", "better"].map((name) => h("th", { scope: "col" }, t(`four.table.${name}`))))),
      h("tbody", {}, wrong.map((move) => mistake(kit, move, goTo))),
    ),
  );
}

function mistake(kit, move, goTo) {
  const { h, s, t } = kit;
  const [got, best] = [meaning(move.got, move.before), meaning(move.best, move.before)];
  return h(
    "tr",
    { dataset: { ply: move.ply + 1 } },
    h("td", {}, h("button", { type: "button", class: "small", "aria-label": t("four.before", { number: move.ply + 1 }), onclick: () => goTo(move.ply) }, String(move.ply + 1))),
    h("td", {}, h("span", { class: "who" }, token(s, move.player), h("span", { class: "visually-hidden" }, t(`four.player.${move.player}`)), h("strong", {}, move.sign), h("b", { class: "mark" }, MARKS[move.kind]))),
    h("td", {}, verdict(kit, got.kind, got.count)),
    h("td", {}, h("span", { class: "who" }, h("strong", {}, move.better.map((column) => SIGNS[column]).join(", ")), verdict(kit, best.kind, best.count))),
  );
}

/** One line of the list of moves, with its mark if the game was analysed. */
export function moveEntry(kit, { sign, ply, judged, current, goTo }) {
  const { h, s, t } = kit;
  const mark = judged?.known ? MARKS[judged.kind] : "";
  const facts = { number: ply + 1, player: t(`four.player.${1 + (ply % 2)}`), column: sign };
  const attributes = {
    type: "button",
    class: `move${mark ? ` move-${judged.kind}` : ""}`,
    dataset: { ply: ply + 1 },
    "aria-current": current ? "step" : null,
    onclick: () => goTo(ply + 1),
  };
  return h(
    "li",
    {},
    h(
      "button",
      attributes,
      h("span", { class: "move-shown", "aria-hidden": "true" }, h("small", {}, String(ply + 1)), token(s, 1 + (ply % 2)), h("span", { class: "move-column" }, sign), mark ? h("b", {}, mark) : null),
      h("span", { class: "visually-hidden" }, `${t("four.move", facts)}${mark ? ` ${t(`four.kind-said.${judged.kind}`)}` : ""}`),
    ),
  );
}

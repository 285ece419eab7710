// The network compared with exact scores: its policy and value, and the attention of each head from one square.

import { token, verdict, weightsBoard } from "./board.js";
import { meaning, SIGNS } from "./rules.js";

const KINDS = ["row", "column", "diagonal", "local", "own", "opponent"];

/** Return the kind of squares whose share of a head's weight exceeds chance the most. */
export function leaning(head) {
  const above = KINDS.map((kind) => [head.shares[kind] - head.chances[kind], kind]);
  return above.reduce((most, one) => (one[0] > most[0] ? one : most))[1];
}

/** → { element, draw({ board, look, scores, state }), none() }; `go(patch)` changes the state. */
export function networkView(kit, { go, facts }) {
  const { h, s, t, number, put } = kit;
  const bars = h("ul", { class: "policy" });
  const value = h("div", { class: "value" });
  const fromHint = kit.freshId("hint");
  const grid = h("div", { class: "square-grid", role: "group", "aria-label": t("four.pick"), "aria-describedby": fromHint });
  const large = h("div", { class: "large-board" });
  const about = h("div", { class: "head-about" });
  const heads = h("ul", { class: "heads" });
  const sort = kit.choiceField({
    label: t("four.sort"),
    value: "layer",
    options: [["layer", t("four.sort.layer")], ...KINDS.map((kind) => [kind, t(`four.kind.${kind}`)])],
    onchange: (order) => go({ sort: order }),
  });
  const waiting = h("p", { class: "thinking" }, t("four.network-loads"));
  const description = [t("four.network-said", { name: facts.name, blocks: facts.blocks, channels: facts.channels, layers: facts.layers, heads: facts.heads, parameters: number(facts.parameters / 1e6, 2) })];
  if (facts.memory) {
    const [rows, columns, stones, numbers] = facts.memory;
    description.push(t("four.network-remembers", { rows, columns, stones, numbers: number(numbers / 1e6, 2) }));
  }
  const element = h(
    "section",
    { class: "card four-network", "aria-label": t("four.network") },
    h("h2", {}, t("four.network")),
    h("p", { class: "explanation" }, description.join(" ")),
    waiting,
    h("div", { class: "network-thoughts" }, h("div", {}, h("h3", {}, t("four.policy")), bars), h("div", {}, h("h3", {}, t("four.value")), value)),
    facts.layers > 0
      ? h(
          "div",
          { class: "network-attention" },
          h("h3", {}, t("four.attention")),
          h("p", { class: "explanation", id: fromHint }, t("four.attention-said")),
          h("div", { class: "attention-main" }, h("div", { class: "attention-large" }, h("div", { class: "large-stage" }, large, grid), about), h("div", { class: "attention-heads" }, sort.element, heads)),
        )
      : null,
  );

  let buttons = [];
  function buildGrid(board, picked) {
    if (buttons.length !== board.squares.length || grid.style.getPropertyValue("--columns") !== String(board.columns)) {
      grid.style.setProperty("--columns", board.columns);
      grid.style.setProperty("--rows", board.rows);
      buttons = board.squares.map((_, square) =>
        h("button", {
          type: "button",
          class: "square",
          dataset: { square },
          "aria-label": "",
          onclick: () => go({ square }),
          onkeydown: (event) => {
            const way = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -board.columns, ArrowDown: board.columns }[event.key];
            if (way === undefined) return;
            const sideways = Math.abs(way) === 1 && Math.floor((square + way) / board.columns) !== Math.floor(square / board.columns);
            if (buttons[square + way] && !sideways) {
              buttons[square + way].focus();
              go({ square: square + way });
            }
            event.preventDefault();
            event.stopPropagation();
          },
        }),
      );
      put(grid, buttons);
    }
    buttons.forEach((button, square) => {
      const facts = { column: SIGNS[square % board.columns], row: board.rows - Math.floor(square / board.columns) };
      const stone = board.squares[square];
      button.tabIndex = square === picked ? 0 : -1;
      button.setAttribute("aria-pressed", String(square === picked));
      button.setAttribute("aria-label", `${t("four.square", facts)} ${stone ? t(`four.player.${stone}`) : t("four.empty")}`);
    });
  }

  function drawPolicy({ board, look, scores }) {
    const best = Math.max(...look.policy);
    put(
      bars,
      look.policy.map((share, column) => {
        const open = board.legal.includes(column);
        const score = scores?.[column] ?? null;
        const { kind, count } = score === null ? {} : meaning(score, board);
        return h(
          "li",
          { class: open && share === best ? "first" : "" },
          h("span", { class: "policy-column" }, SIGNS[column]),
          h("span", { class: "bar" }, h("span", { class: "bar-fill", style: { width: `${100 * share}%` } })),
          h("span", { class: "policy-share", dataset: { value: String(share) } }, open ? `${number(100 * share, 1)} %` : t("four.full")),
          h("span", { class: "policy-truth" }, open && score !== null ? verdict(kit, kind, count) : open ? "–" : ""),
        );
      }),
    );
    const solved = scores?.filter((one) => one !== null) ?? [];
    const truth = solved.length === board.legal.length && solved.length > 0 ? Math.sign(Math.max(...solved)) : null;
    const place = (x) => `${50 + 50 * x}%`;
    put(
      value,
      h("div", { class: "value-words" }, token(s, board.turn), h("strong", { dataset: { value: String(look.value) } }, number(look.value, 2)), h("span", {}, t("four.value-said", { player: t(`four.player.${board.turn}`) }))),
      h(
        "div",
        { class: "value-line", role: "img", "aria-label": t("four.value-line", { value: number(look.value, 2) }) },
        h("span", { class: "value-at", style: { left: place(look.value) } }),
        truth === null ? null : h("span", { class: "value-truth", style: { left: place(truth) } }),
      ),
      h("div", { class: "value-ends" }, h("span", {}, t("four.value-loss")), h("span", {}, t("four.value-draw")), h("span", {}, t("four.value-win"))),
      h("p", { class: "remark" }, truth === null ? t("four.value-unknown") : t("four.value-known", { truth: truth > 0 ? t("four.chip.win") : truth < 0 ? t("four.chip.loss") : t("four.chip.draw") })),
    );
  }

  function drawHeads({ board, look, state }) {
    const order = state.sort in look.heads[0].shares ? state.sort : "layer";
    sort.set(order);
    const above = (head) => head.shares[order] - head.chances[order];
    const sorted = [...look.heads].sort((a, b) => (order === "layer" ? 0 : above(b) - above(a)));
    const name = (head) => `${head.layer + 1}.${head.head + 1}`;
    const chosen = look.heads.find((head) => name(head) === state.head) ?? sorted[0];
    const percent = (x) => `${number(100 * x, 0)} %`;
    put(large, weightsBoard(kit, board, chosen.weights, state.square, { most: Math.max(...chosen.weights) }));
    put(
      about,
      h("h4", {}, t("four.head", { layer: chosen.layer + 1, head: chosen.head + 1 }), chosen.sees === "all" ? null : h("span", { class: "remark" }, t("four.sees", { what: chosen.sees }))),
      h(
        "table",
        { class: "shares" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("four.looks-at")), h("th", { scope: "col" }, t("four.from-here")), h("th", { scope: "col" }, t("four.share")), h("th", { scope: "col" }, t("four.chance")))),
        h(
          "tbody",
          {},
          KINDS.map((kind) =>
            h(
              "tr",
              { class: kind === leaning(chosen) ? "leaning" : "" },
              h("th", { scope: "row" }, t(`four.kind.${kind}`)),
              h("td", { dataset: { here: kind, value: String(chosen.here[kind]) } }, percent(chosen.here[kind])),
              h("td", { dataset: { share: kind, value: String(chosen.shares[kind]) } }, percent(chosen.shares[kind])),
              h("td", { dataset: { chance: kind, value: String(chosen.chances[kind]) } }, percent(chosen.chances[kind])),
            ),
          ),
        ),
      ),
      h("p", { class: "remark" }, t("four.shares-said")),
    );
    put(
      heads,
      sorted.map((head) => {
        const kind = order === "layer" ? leaning(head) : order;
        const summary = t("four.head-said", { kind: t(`four.kind.${kind}`), share: percent(head.shares[kind]), chance: percent(head.chances[kind]) });
        return h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "head", dataset: { head: name(head) }, "aria-pressed": String(head === chosen), onclick: () => go({ head: name(head) }) },
            weightsBoard(kit, board, head.weights, state.square, { most: Math.max(...head.weights) }),
            h("strong", {}, t("four.head", { layer: head.layer + 1, head: head.head + 1 })),
            h("span", {}, summary),
          ),
        );
      }),
    );
  }

  return {
    element,
    draw(next) {
      element.classList.toggle("stale", !next.look);
      waiting.hidden = Boolean(next.look);
      if (!next.look) return;
      drawPolicy(next);
      if (facts.layers === 0) return;
      const focused = heads.contains(document.activeElement) ? document.activeElement.dataset.head : null;
      buildGrid(next.board, next.state.square);
      drawHeads(next);
      if (focused) heads.querySelector(`[data-head="${focused}"]`)?.focus();
    },
  };
}

/** Instructions for training a network, shown if there is none. */
export function noNetwork(kit) {
  const { h, t } = kit;
  return h(
    "section",
    { class: "card four-network", "aria-label": t("four.network") },
    h("h2", {}, t("four.network")),
    h("p", { class: "explanation" }, t("four.no-network")),
    h("pre", { class: "commands", tabindex: 0 }, h("code", {}, "regard connectx label labels --minutes 30\nregard connectx train --method distill --labels labels --minutes 60 --out runs/mine\nregard lab --network runs/mine")),
  );
}

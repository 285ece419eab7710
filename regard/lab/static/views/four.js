// The view Connect Four: play against several opponents, show exact scores, analyse a game, and inspect the network.

import { analysisOf, moveEntry } from "./four/analysis.js";
import { boardView, standing, token } from "./four/board.js";
import { judgedMoves } from "./four/game.js";
import { networkView, noNetwork } from "./four/network.js";
import { bestOf, boardOf, meaning, SIGNS, solvable } from "./four/rules.js";

export const defaults = {
  moves: "",
  at: -1, // number of moves shown on the board; −1: all
  opponent: "minimax:5",
  begins: true, // whether the learner moves first
  truth: false,
  game: false, // whether the game is analysed
  rows: 6,
  columns: 7,
  inarow: 4,
  square: 38, // the middle of the lowest row
  head: "1.1",
  sort: "layer",
};

const SIZES = [[6, 7, 4], [5, 6, 4], [4, 5, 4], [4, 4, 3], [7, 8, 4], [6, 9, 5], [9, 9, 5]];
const STRENGTHS = { minimax: [1, 3, 5, 7, 9], mcts: [50, 200, 1000, 5000, 20000], network: [0, 25, 200] };
const USUAL = { minimax: 5, mcts: 1000, network: 25 };
const GLANCE = 15; // seconds of the first search for scores
const LONG = 90; // seconds when the learner requests more
const GAME = 40;

export async function mount(root, initial, kit) {
  const { h, s, t, put } = kit;
  let state = initial;
  let board = boardOf("", initial);
  let look = null; // the network's evaluation, with its board and square
  let plies = null; // analysis of the game: { moves, plies, complete }
  const solved = new Map(); // "rows columns inarow moves" → scores
  const asking = { move: null, truth: null, game: null, look: null };
  let asks = 0;
  let truth = { key: "", scores: null, thinking: false, sure: true, seconds: 0 };
  let announcement = "";
  const facts = await kit.api.get("/api/four");

  // ---- controls -----------------------------------------------------------------------------------------------------

  const kinds = ["friend", "random", "greedy", "minimax", "mcts", "solver", ...(facts.network ? ["network"] : [])];
  const opponentText = (kind) => t(`four.opponent.${kind === "network" && facts.network.memory ? "network-table" : kind}`);
  const kindOf = (opponent) => opponent.split(":")[0];
  const amountOf = (opponent) => Number(opponent.split(":")[1] ?? 0);
  const named = (kind, amount) => (kind in STRENGTHS && amount > 0 ? `${kind}:${amount}` : kind);
  const sizeName = () => [state.rows, state.columns, state.inarow].join(" ");
  const fields = {
    player: kit.choiceField({
      label: t("four.opponent"),
      value: kindOf(state.opponent),
      options: kinds.map((kind) => [kind, opponentText(kind)]),
      onchange: (kind) => kit.go({ opponent: named(kind, USUAL[kind] ?? 0) }),
    }),
    strength: kit.choiceField({ label: t("four.strength"), value: "", options: [], onchange: (amount) => kit.go({ opponent: named(kindOf(state.opponent), Number(amount)) }) }),
    begins: kit.choiceField({
      label: t("four.begins"),
      value: String(state.begins),
      options: [["true", t("four.begins.you")], ["false", t("four.begins.them")]],
      onchange: (who) => kit.go({ begins: who === "true" }),
    }),
    size: kit.choiceField({
      label: t("four.size"),
      value: sizeName(),
      options: [],
      onchange: (name) => {
        if (name === "own") {
          own.hidden = false;
          fields.rows.input.focus();
        } else resize(...name.split(" ").map(Number));
      },
    }),
    rows: kit.numberField({ label: t("four.rows"), value: state.rows, min: 3, max: 9, onchange: (rows) => resize(rows, state.columns, state.inarow) }),
    columns: kit.numberField({ label: t("four.columns-count"), value: state.columns, min: 3, max: 9, onchange: (columns) => resize(state.rows, columns, state.inarow) }),
    inarow: kit.numberField({ label: t("four.inarow"), value: state.inarow, min: 3, max: 6, onchange: (inarow) => resize(state.rows, state.columns, inarow) }),
    text: kit.textField({ label: t("four.paste"), value: "", hint: t("four.paste-hint"), placeholder: "44455 …", onchange: () => fields.text.showError(null) }),
  };
  const truthSwitch = kit.switchField({ label: t("four.truth"), value: state.truth, onchange: (on) => kit.go({ truth: on }) });
  const own = h("div", { class: "fields own-size", hidden: SIZES.some((size) => size.join(" ") === sizeName()) }, fields.rows.element, fields.columns.element, fields.inarow.element);
  const resize = (rows, columns, inarow) => kit.go({ rows, columns, inarow, moves: "", at: -1, game: false, square: (rows - 1) * columns + (columns >> 1) });

  const stage = boardView(kit, { onplay: play });
  const status = h("p", { class: "status" });
  const button = (key, act, more = {}) => h("button", { type: "button", class: "small", onclick: act, ...more }, t(`four.${key}`));
  const buttons = {
    undo: button("undo", () => back()),
    redo: button("redo", () => forth()),
    fresh: button("fresh", () => kit.go({ moves: "", at: -1, game: false }, { push: true })),
    it: button("it", () => askMove(), { class: "small" }),
  };
  const truthLine = h("div", { class: "truth-line" });
  const list = h("ol", { class: "move-list" });
  const noMoves = h("p", { class: "remark" }, t("four.no-moves"));
  const analyse = h("button", { type: "button", class: "primary small", onclick: () => kit.go({ game: true }) }, t("four.analyse"));
  const analysis = h("div", { class: "analysis" });
  const network = facts.network ? networkView(kit, { go: (patch) => kit.go(patch), facts: facts.network }) : null;

  root.append(
    h(
      "div",
      { class: "four-main" },
      h(
        "section",
        { class: "card four-board", "aria-label": t("four.board") },
        h("div", { class: "four-head" }, status, truthSwitch.element),
        stage.element,
        truthLine,
        h("div", { class: "buttons" }, buttons.undo, buttons.redo, buttons.it, buttons.fresh),
        h("p", { class: "remark hint" }, t("four.hint")),
      ),
      h(
        "div",
        { class: "four-side" },
        h(
          "form",
          { class: "card four-settings", "aria-label": t("four.settings"), onsubmit: (event) => event.preventDefault() },
          h("div", { class: "fields" }, fields.player.element, fields.strength.element, fields.begins.element, fields.size.element),
          own,
        ),
        h("section", { class: "card four-moves", "aria-label": t("four.moves") }, h("h2", {}, t("four.moves")), list, noMoves),
        h(
          "form",
          { class: "card four-analysis", "aria-label": t("four.analysis"), onsubmit: readGame },
          h("h2", {}, t("four.analysis")),
          h("p", { class: "explanation" }, t("four.analysis-said")),
          fields.text.element,
          h("div", { class: "buttons" }, h("button", { type: "submit", class: "small" }, t("four.load")), analyse),
        ),
      ),
    ),
    analysis,
    network ? network.element : noNetwork(kit),
  );

  // ---- moves ----------------------------------------------------------------------------------------------------------

  const shownMoves = () => (state.at < 0 ? state.moves : state.moves.slice(0, state.at));
  const size = () => ({ rows: state.rows, columns: state.columns, inarow: state.inarow });
  const keyOf = (moves) => `${sizeName()} ${moves}`;
  const friend = () => state.opponent === "friend";
  const theirs = () => !friend() && (board.turn === 1) !== state.begins;
  const atEnd = () => state.at < 0 || state.at >= state.moves.length;

  function play(column) {
    if (!board.legal.includes(column)) {
      if (!board.over) kit.announce(t("four.column-full", { column: SIGNS[column] }));
      return;
    }
    if (asking.move) return;
    drop(column);
  }

  /** Play a stone. Moves taken back before are discarded, unless this is the same move again. */
  function drop(column) {
    const sign = SIGNS[column];
    const before = shownMoves();
    const facts = { player: t(`four.player.${board.turn}`), column: sign, row: board.heights[column] + 1 };
    announcement = t("four.played", facts);
    if (state.moves[before.length] === sign && !atEnd()) kit.go({ at: before.length + 1 });
    else kit.go({ moves: before + sign, at: -1, game: false });
  }

  const goTo = (ply) => kit.go({ at: ply >= state.moves.length ? -1 : Math.max(0, ply) });

  /** Take back to the learner's turn: two moves against an opponent. */
  function back() {
    const here = board.stones;
    stop("move");
    if (here === 0) return;
    const two = !friend() && here >= 2 && !theirs();
    announcement = t("four.undone");
    goTo(here - (two ? 2 : 1));
  }

  function forth() {
    const here = board.stones;
    if (atEnd()) return;
    const two = !friend() && here + 2 <= state.moves.length && !theirs();
    goTo(here + (two ? 2 : 1));
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, header")) return;
    const column = SIGNS.indexOf(event.key);
    if (event.key.length === 1 && column >= 0 && column < board.columns) play(column);
    else if (event.key === "Backspace") back();
    else return;
    event.preventDefault();
  }

  // ---- requests ---------------------------------------------------------------------------------------------------------

  function stop(what) {
    asking[what]?.abort();
    asking[what] = null;
  }

  /** Run a job that the next job of its kind stops; return null if it was stopped or failed. */
  async function ask(what, path, body, onprogress = () => {}) {
    stop(what);
    const control = new AbortController();
    asking[what] = control;
    try {
      const answer = await kit.api.job(path, body, { onprogress: (job) => !control.signal.aborted && onprogress(job), signal: control.signal });
      return control.signal.aborted ? null : answer;
    } catch (error) {
      if (error.name === "AbortError" || control.signal.aborted || error.code === "saved") return null;
      if (error.code === "failed" && !error.message) return null; // another page has started a job of this kind
      kit.failed(error, fields);
      return null;
    } finally {
      if (asking[what] === control) asking[what] = null;
    }
  }

  const position = () => ({ moves: board.moves, ...size() });

  async function askMove() {
    if (board.over || asking.move || friend()) return;
    const from = board.moves;
    const pending = ask("move", "/api/four/move", { ...position(), player: state.opponent });
    drawStatus();
    drawBoard();
    const answer = await pending;
    if (!answer || board.moves !== from) {
      drawAll();
      return;
    }
    if (!answer.sure) kit.toast(t("four.not-sure"), { seconds: 7 });
    drop(answer.column);
  }

  async function askTruth(seconds = GLANCE) {
    const key = keyOf(board.moves);
    const request = ++asks;
    truth = { key, scores: solved.get(key) ?? null, thinking: false, sure: true, seconds };
    if (!state.truth || board.over || truth.scores) {
      stop("truth");
      drawTruth();
      return;
    }
    truth = { ...truth, scores: new Array(board.columns).fill(null), thinking: true, sure: false };
    drawTruth();
    const hear = (job) => {
      if (request !== asks || !job.progress.scores) return;
      if (JSON.stringify(job.progress.scores) === JSON.stringify(truth.scores)) return;
      truth = { ...truth, scores: job.progress.scores };
      drawTruth();
    };
    let answer = await ask("truth", "/api/four/truth", { ...position(), seconds }, hear);
    if (kit.saved) answer ??= await ask("truth", "/api/four/truth", { ...position(), seconds: LONG }, hear);
    if (request !== asks) return;
    if (answer?.complete) solved.set(key, answer.scores);
    truth = { ...truth, scores: answer?.scores ?? truth.scores, thinking: false, sure: Boolean(answer?.complete) };
    drawTruth();
    drawNetwork();
    if (state.truth) kit.announce(truthWords());
  }

  async function askGame() {
    const moves = state.moves;
    plies = { moves, size: sizeName(), plies: {}, complete: false, thinking: true };
    drawAnalysis();
    const hear = (latest) => {
      if (plies?.moves !== moves) return false;
      plies = { ...plies, plies: latest };
      for (const [ply, scores] of Object.entries(latest)) solved.set(keyOf(moves.slice(0, ply)), scores);
      return true;
    };
    const answer = await ask("game", "/api/four/game", { moves, ...size(), seconds: GAME }, (job) => {
      const count = Object.keys(job.progress.plies ?? {}).length;
      if (count > Object.keys(plies?.plies ?? {}).length && hear(job.progress.plies)) drawAnalysis();
    });
    if (plies?.moves !== moves) return;
    if (answer) hear(answer.plies);
    plies = { ...plies, complete: Boolean(answer?.complete), thinking: false };
    drawAnalysis();
    drawMoves();
    kit.announce(t("four.analysed"));
  }

  async function askLook() {
    stop("look");
    if (!network || board.over) {
      look = null;
      drawNetwork();
      return;
    }
    const control = new AbortController();
    asking.look = control;
    try {
      const answer = await kit.api.post("/api/four/look", { ...position(), square: Math.min(state.square, board.squares.length - 1) }, { signal: control.signal });
      if (control.signal.aborted) return;
      look = answer;
      drawNetwork();
    } catch (error) {
      if (!control.signal.aborted && error.code !== "saved") kit.failed(error, fields);
    }
  }

  async function readGame(event) {
    event.preventDefault();
    try {
      const { moves } = await kit.api.post("/api/four/read", { text: fields.text.value(), ...size() }, { remember: false });
      kit.showErrorAt({ text: fields.text }, null);
      kit.go({ moves, at: -1, game: moves.length > 0 && solvable(state), opponent: "friend" }, { push: true });
    } catch (error) {
      kit.failed(error.field === "moves" ? Object.assign(error, { field: "text" }) : error, fields);
    }
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------------

  function drawBoard() {
    const here = truth.key === keyOf(board.moves) && state.truth;
    stage.draw(board, { scores: here ? truth.scores : null, thinking: here && truth.thinking, sure: truth.sure, waiting: Boolean(asking.move) });
  }

  function statusWords() {
    if (board.winner) return t("four.won", { player: t(`four.player.${board.winner}`) });
    if (board.full) return t("four.drawn");
    const player = t(`four.player.${board.turn}`);
    if (asking.move) return t("four.thinks", { player });
    if (friend()) return t("four.turn", { player });
    return theirs() ? t("four.turn-them", { player }) : t("four.turn-you", { player });
  }

  function drawStatus() {
    const shown = board.winner || (board.full ? 0 : board.turn);
    put(status, shown ? token(s, shown) : null, h("span", {}, statusWords()));
    status.classList.toggle("thinking", Boolean(asking.move));
    buttons.undo.disabled = board.stones === 0;
    buttons.redo.disabled = atEnd();
    buttons.fresh.disabled = state.moves === "";
    buttons.it.disabled = board.over || friend() || Boolean(asking.move) || kit.saved;
  }

  function truthWords() {
    const open = board.legal.length;
    const found = truth.scores.filter((score) => score !== null).length;
    if (truth.thinking) return t("four.truth-thinking", { found, open });
    if (!truth.sure) return t("four.truth-open", { found, open, seconds: truth.seconds });
    const best = bestOf(truth.scores);
    const { kind, count } = meaning(truth.scores[best[0]], board);
    const words = kind === "draw" ? t("four.verdict.draw") : t(`four.verdict.${kind}`, { n: count });
    return t("four.truth-best", { columns: best.map((column) => SIGNS[column]).join(", "), words });
  }

  function drawTruth() {
    drawBoard();
    const here = state.truth && !board.over && truth.key === keyOf(board.moves) && truth.scores;
    truthLine.hidden = !state.truth;
    if (!here) {
      put(truthLine, h("p", {}, board.over ? t("four.truth-over") : ""));
      return;
    }
    put(
      truthLine,
      h("p", { class: truth.thinking ? "thinking" : "" }, truthWords()),
      truth.thinking ? h("button", { type: "button", class: "quiet small", onclick: () => stop("truth") }, t("four.stop")) : null,
      !truth.thinking && !truth.sure && !kit.saved ? h("button", { type: "button", class: "small", onclick: () => askTruth(LONG) }, t("four.think-on", { seconds: LONG })) : null,
      h("p", { class: "remark legend" }, t("four.legend")),
    );
  }

  function drawMoves() {
    const judged = plies && plies.moves === state.moves && state.game ? judgedMoves(state.moves, plies.plies, size()) : null;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.ply : null;
    noMoves.hidden = state.moves !== "";
    put(list, [...state.moves].map((sign, ply) => moveEntry(kit, { sign, ply, judged: judged?.[ply], current: board.stones === ply + 1, goTo })));
    if (focused) list.querySelector(`[data-ply="${focused}"]`)?.focus();
    const now = list.querySelector("[aria-current]")?.parentElement;
    if (now) list.scrollTop = Math.max(Math.min(list.scrollTop, now.offsetTop), now.offsetTop + now.offsetHeight - list.clientHeight);
  }

  function drawAnalysis() {
    const shown = state.game && plies && plies.moves === state.moves && plies.size === sizeName();
    analyse.disabled = state.moves === "" || !solvable(state) || shown || kit.saved;
    analysis.hidden = !shown;
    if (!shown) {
      put(analysis);
      return;
    }
    const card = analysisOf(kit, { ...plies, size: size(), at: board.stones, wide: root.clientWidth, goTo, stop: () => stop("game") });
    put(analysis, card);
  }

  function drawNetwork() {
    if (!network) return;
    network.element.hidden = board.over;
    const scores = solved.get(keyOf(board.moves)) ?? (state.truth && truth.key === keyOf(board.moves) ? truth.scores : null);
    network.draw({ board, look, scores, state: { ...state, square: Math.min(state.square, board.squares.length - 1) } });
  }

  function drawFields() {
    const kind = kindOf(state.opponent);
    fields.player.set(kind);
    fields.strength.element.hidden = !(kind in STRENGTHS);
    if (kind in STRENGTHS) {
      const amount = amountOf(state.opponent);
      const amounts = [...new Set([...STRENGTHS[kind], amount])].sort((a, b) => a - b);
      put(fields.strength.input, amounts.map((n) => h("option", { value: String(n) }, n === 0 ? t("four.strength.alone") : t(`four.strength.${kind}`, { n }))));
      fields.strength.set(String(amount));
    }
    fields.begins.element.hidden = friend();
    fields.begins.set(String(state.begins));
    const usual = SIZES.some((one) => one.join(" ") === sizeName());
    put(fields.size.input, SIZES.map((one) => h("option", { value: one.join(" ") }, t("four.size-of", { rows: one[0], columns: one[1], inarow: one[2] }))), h("option", { value: "own" }, t("four.size.own")));
    fields.size.set(usual && own.hidden ? sizeName() : "own");
    for (const name of ["rows", "columns", "inarow"]) fields[name].set(state[name]);
    truthSwitch.set(state.truth);
  }

  function drawAll() {
    drawStatus();
    drawTruth();
    drawMoves();
    drawAnalysis();
    drawNetwork();
  }

  // ---- updates of the state -----------------------------------------------------------------------------------------------

  let last = {};
  function update(next) {
    state = next;
    for (const [name, least, most] of [["rows", 3, 9], ["columns", 3, 9], ["inarow", 3, 6]]) {
      if (!Number.isInteger(state[name]) || state[name] < least || state[name] > most) state = { ...state, [name]: defaults[name] };
    }
    const whole = boardOf(state.moves, size()).moves;
    if (whole !== state.moves) {
      kit.toast(t("four.bad-link"), { wrong: true });
      state = { ...state, moves: whole };
      kit.go({ moves: whole }, { quiet: true });
    }
    if (!kinds.includes(kindOf(state.opponent))) state = { ...state, opponent: defaults.opponent };
    board = boardOf(shownMoves(), size());
    const key = keyOf(board.moves);
    const moved = key !== last.key;
    if (moved || state.opponent !== last.opponent) stop("move");
    if (moved && last.key !== undefined) kit.announce(`${announcement} ${statusWords()}`.trim());
    announcement = "";
    const before = last;
    last = { key, opponent: state.opponent, truth: state.truth, square: state.square, game: state.game && `${sizeName()} ${state.moves}` };
    drawFields();
    if (moved || before.truth !== state.truth) askTruth();
    if (last.game && last.game !== before.game && !(plies?.moves === state.moves && plies.size === sizeName())) askGame();
    if (!last.game) stop("game");
    drawAll();
    if (moved && before.key !== undefined && !kit.saved) kit.api.get("/api/four").catch(() => {}); // keep this answer for a saved page
    if (network && (moved || before.square !== state.square)) askLook();
    if (theirs() && atEnd() && !board.over && !kit.saved && !asking.move) askMove();
  }

  update(state);
  document.addEventListener("keydown", keys); // columns can be played wherever the focus is
  return {
    update,
    unmount() {
      document.removeEventListener("keydown", keys);
      Object.keys(asking).forEach(stop);
    },
    picture() {
      const note = board.moves === "" ? t("four.picture-empty") : t("four.picture-moves", { moves: board.moves });
      return { title: statusWords(), note, drawings: [standing(stage.picture)] };
    },
  };
}

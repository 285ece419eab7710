// The view Break it: a trained translator with one mistake in its attention, to try or to guess.

import { decodeArray } from "../kit/arrays.js";
import { figure } from "../kit/figure.js";

export const defaults = {
  mode: "try",
  text: "The cat sat on the mat",
  damage: "axis",
  seed: 0, // of the game; 0: a new game
  round: 0,
  guesses: [], // 1 for each right guess, 0 for each wrong one
  guess: "", // guess of the current round
};

// The line of code that makes each mistake.
const CODE = {
  scale: "softmax(q @ k.T)",
  inverted: "scores.masked_fill(visible, -inf)",
  unmasked: "softmax(q @ k.T / d_k ** 0.5)",
  axis: "scores.softmax(dim=-2)",
  merge: "context.reshape(B, L, D)",
  positions: "x = embedding(tokens)",
  head: "context[:, 1] = 0",
  padding: "cross(x, source, mask=None)",
};
const DAMAGES = Object.keys(CODE);
const EXAMPLES = ["The cat sat on the mat", "The small dog slept under the table", "Did the girl read a book?", "The old teacher gave the boy a red apple"];
const FURTHER = {
  scale: { exercise: "04-scaling", claim: "scale" },
  inverted: { exercise: "05-masks", claim: "mask" },
  unmasked: { exercise: "15-causal", claim: "mask" },
  axis: { exercise: "01-softmax", claim: "softmax" },
  merge: { exercise: "07-multi-head", claim: "heads-not-speed" },
  positions: { exercise: "12-positions", claim: "positions" },
  head: { exercise: "07-multi-head", claim: "heads-not-speed" },
  padding: { exercise: "05-masks", claim: "mask" },
};

export async function mount(root, initial, kit) {
  const { h, t, number, put } = kit;
  let state = initial;
  let data = null; // { trained, damaged } of lastQuestion
  let verdict = null; // { damage, right } of the round that was guessed
  let lastQuestion = "";
  let asking = false;
  let again = false;
  let closed = false;

  const game = () => state.mode === "guess";

  // ---- controls -------------------------------------------------------------------------------------------------

  const modes = h(
    "div",
    { class: "modes", role: "group", "aria-label": t("breakit.modes") },
    ["try", "guess"].map((mode) => h("button", { type: "button", dataset: { mode }, onclick: () => choose(mode) }, h("strong", {}, t(`breakit.mode.${mode}`)), h("span", {}, t(`breakit.mode-said.${mode}`)))),
  );
  const fields = { text: kit.textField({ label: t("breakit.text"), value: state.text, onchange: kit.debounced((text) => kit.go({ text }), 300) }) };
  const chips = h("div", { class: "chips", role: "group", "aria-label": t("breakit.examples") }, EXAMPLES.map((text) => h("button", { type: "button", class: "small chip", onclick: () => kit.go({ text }) }, text)));
  const controls = h("form", { class: "card breakit-controls", onsubmit: (event) => event.preventDefault() }, modes, fields.text.element, chips);

  const choicesTitle = h("h2", {});
  const choicesSaid = h("p", { class: "explanation" });
  const choices = h("div", { class: "damages", role: "group", "aria-label": t("breakit.damages") });
  const score = h("p", { class: "score", role: "status" });
  const outcome = h("p", { class: "breakit-outcome", lang: "zh-Hans", "aria-hidden": "true" }); // on phones the results are below
  const choicesCard = h("section", { class: "card breakit-choices" }, choicesTitle, choicesSaid, choices, score, outcome);

  const comparison = h("div", { class: "breakit-comparison" });
  const explanation = h("section", { class: "card breakit-why", "aria-live": "polite", "aria-label": t("breakit.why") });
  const waiting = h("p", { class: "waiting", role: "status", hidden: true }, t("breakit.waiting"));
  root.append(controls, h("div", { class: "breakit-main" }, choicesCard, h("div", { class: "breakit-results" }, waiting, comparison, explanation)));

  function choose(mode) {
    if (mode === "guess" && !state.seed) newGame();
    else kit.go({ mode }, { push: true });
    modes.querySelector(`[data-mode=${mode}]`)?.focus();
  }

  function newGame() {
    verdict = null;
    kit.go({ mode: "guess", seed: 1 + Math.floor(Math.random() * 1e6), round: 0, guesses: [], guess: "", text: EXAMPLES[0] }, { push: true });
  }

  function nextRound() {
    verdict = null;
    const round = state.round + 1;
    kit.go({ round, guess: "", text: EXAMPLES[round % EXAMPLES.length] });
    choices.querySelector("button")?.focus();
  }

  // ---- requests -------------------------------------------------------------------------------------------------

  const question = () => (game() ? ["/api/breakit/round", { text: state.text, seed: state.seed, round: state.round }] : ["/api/breakit", { text: state.text, damage: state.damage }]);

  /** Send one request at a time; of the requests made meanwhile only the last one is sent. */
  async function ask() {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    const slow = setTimeout(() => (waiting.hidden = false), 400);
    do {
      again = false;
      const [path, body] = question();
      const current = JSON.stringify([path, body]);
      try {
        if (current !== lastQuestion) {
          const answer = await kit.api.post(path, body);
          if (closed) return;
          lastQuestion = current;
          data = answer;
          kit.api.retainAnswer("POST", path, body);
          kit.showErrorAt(fields, null);
        }
        if (game() && state.guess && !verdict) {
          const asked = { seed: state.seed, round: state.round, guess: state.guess };
          verdict = await kit.api.post("/api/breakit/guess", asked);
          kit.api.retainAnswer("POST", "/api/breakit/guess", asked);
        }
      } catch (error) {
        if (!closed) kit.failed(error, fields);
      }
    } while (again && !closed);
    clearTimeout(slow);
    waiting.hidden = true;
    asking = false;
    if (!closed) draw();
  }

  function answer(damage) {
    const asked = { seed: state.seed, round: state.round, guess: damage };
    kit.api.post("/api/breakit/guess", asked).then((result) => {
      verdict = result;
      kit.api.retainAnswer("POST", "/api/breakit/guess", asked);
      kit.go({ guess: damage, guesses: [...state.guesses, result.right ? 1 : 0] });
      kit.complete("break"); // a step of the learning path
      kit.announce(t(result.right ? "breakit.right" : "breakit.wrong", { damage: t(`breakit.damage.${result.damage}`) }));
      explanation.querySelector("button")?.focus();
    }, (error) => kit.failed(error, fields));
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  function drawChoices() {
    const guessed = game() && state.guess !== "";
    choicesTitle.textContent = game() ? t("breakit.round", { round: state.round + 1 }) : t("breakit.damages");
    choicesSaid.textContent = t(game() ? "breakit.guess-said" : "breakit.try-said");
    put(
      choices,
      DAMAGES.map((damage) => {
        const mark = guessed && verdict ? (verdict.damage === damage ? "right" : state.guess === damage ? "wrong" : "") : "";
        return h(
          "button",
          { type: "button", class: mark, dataset: { damage }, disabled: guessed, "aria-pressed": String(game() ? state.guess === damage : state.damage === damage), onclick: () => (game() ? answer(damage) : kit.go({ damage }, { push: true })) },
          h("strong", {}, t(`breakit.damage.${damage}`)),
          h("code", {}, CODE[damage]),
        );
      }),
    );
    const right = state.guesses.reduce((sum, one) => sum + one, 0);
    score.hidden = !game();
    score.textContent = t("breakit.score", { right, rounds: state.guesses.length });
    for (const button of modes.children) button.setAttribute("aria-pressed", String(button.dataset.mode === state.mode));
    if (document.activeElement !== fields.text.input) fields.text.set(state.text);
  }

  const bar = (share) => h("span", { class: "moved-bar before" }, h("span", { class: "fill", style: { width: `${100 * share}%` } }));
  const shown = (token) => (token === " " ? "␣" : token);
  const heads = (maps) => decodeArray(maps).map((rows) => kit.thumbnail(rows.map((row) => Array.from(row, (x) => Math.min(1, x))), { size: 72 }));

  function result(name, one) {
    const [least, most] = one.sums;
    const even = Math.abs(least - 1) < 1e-3 && Math.abs(most - 1) < 1e-3;
    const changed = name === "damaged" && one.written !== data.trained.written;
    return h(
      "section",
      { class: `card breakit-result ${name}`, "aria-label": t(`breakit.${name}`) },
      h("h2", {}, t(`breakit.${name}`)),
      h("p", { class: `breakit-written${changed ? " changed" : ""}`, lang: "zh-Hans", dataset: { written: one.written } }, one.written || "∅"),
      name === "damaged" && !changed ? h("p", { class: "remark" }, t("breakit.same")) : null,
      h("h3", {}, t("breakit.probabilities")),
      h("ol", { class: "breakit-tokens" }, one.tokens.map((token, i) => h("li", {}, h("span", { class: "moved-name" }, shown(token)), bar(one.probabilities[i]), h("span", {}, number(one.probabilities[i], 2))))),
      h("h3", {}, t("breakit.own")),
      h("div", { class: "breakit-maps" }, heads(one.own)),
      h("h3", {}, t("breakit.cross")),
      h("div", { class: "breakit-maps" }, heads(one.cross)),
      h("p", { class: "remark", dataset: { least, most } }, even ? t("breakit.sums-one") : t("breakit.sums", { least: number(least, 2), most: number(most, 2) })),
    );
  }

  function drawExplanation() {
    const damage = game() ? verdict?.damage : state.damage;
    explanation.hidden = !damage;
    if (!damage) return;
    const { exercise, claim } = FURTHER[damage];
    const links = [
      h("a", { href: kit.link("practice", { tab: "exercises", exercise }) }, t("breakit.exercise", { exercise })),
      h("a", { href: kit.link("claims", { claim }) }, t("breakit.claim", { claim })),
      damage === "head" ? h("a", { href: kit.link("model", { model: "phrases" }) }, t("breakit.model")) : null,
    ];
    put(
      explanation,
      game() ? h("p", { class: `verdict ${verdict.right ? "right" : "wrong"}` }, t(verdict.right ? "breakit.right" : "breakit.wrong", { damage: t(`breakit.damage.${damage}`) })) : null,
      h("h2", {}, t(`breakit.damage.${damage}`)),
      h("p", {}, t(`breakit.why.${damage}`)),
      h("p", { class: "breakit-links" }, links),
      game() ? h("p", {}, h("button", { type: "button", class: "primary", onclick: nextRound }, t("breakit.next")), " ", h("button", { type: "button", onclick: newGame }, t("breakit.new"))) : null,
    );
  }

  function draw() {
    drawChoices();
    if (!data) return;
    const changed = data.damaged.written !== data.trained.written;
    put(outcome, data.trained.written, " → ", h("strong", { class: changed ? "changed" : "" }, data.damaged.written || "∅"));
    put(comparison, result("trained", data.trained), result("damaged", data.damaged));
    drawExplanation();
  }

  function update(next) {
    if (next.round !== state.round || next.seed !== state.seed) verdict = null;
    state = next;
    if (!DAMAGES.includes(state.damage)) state.damage = defaults.damage;
    if (game() && !state.seed) return newGame();
    drawChoices();
    ask();
  }

  update(state);
  return {
    update,
    unmount() {
      closed = true;
    },
    /** Picture: cross-attention of the first head, as trained and damaged. */
    picture() {
      if (!data) throw new Error(t("breakit.waiting"));
      const title = game() ? t("breakit.title") : `${t("breakit.title")} · ${t(`breakit.damage.${state.damage}`)}`;
      const matrix = (name) => ({ name: `${t(`breakit.${name}`)}: ${data[name].written}`, values: decodeArray(data[name].cross)[0], rows: data[name].tokens.map(shown), columns: data[name].source, kind: "weights" });
      return { title, note: state.text, drawings: [figure({ matrices: [matrix("trained"), matrix("damaged")] })] };
    },
  };
}

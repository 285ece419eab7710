// Drills: computing attention by hand. Each step is checked when it is answered, using the learner's own earlier numbers.

import { inline } from "../../kit/inline.js";

const LEVELS = [1, 2, 3, 4, 5];

export async function show(root, initial, kit, course) {
  const { h, t, put } = kit;
  let state = initial;
  let drill = null;
  let results = []; // results of the steps answered so far
  let closed = false;
  let asking = false;

  const controls = h("div", { class: "card drill-controls" });
  const sheet = h("section", { class: "card drill" });
  put(root, controls, sheet);

  const kinds = (level) => course.overview.drills.kinds.filter((one) => one.level === level);

  function drawControls() {
    const focused = controls.contains(document.activeElement) && document.activeElement.dataset.level;
    put(
      controls,
      h(
        "div",
        { class: "levels", role: "group", "aria-label": t("practice.level") },
        h("span", { class: "label", "aria-hidden": "true" }, t("practice.level")),
        LEVELS.map((level) => h("button", { type: "button", class: "chip", "aria-pressed": String(level === state.level), "aria-label": t("practice.level-n", { n: level }), dataset: { level: String(level) }, onclick: () => another({ level, kind: "" }) }, String(level))),
      ),
      h(
        "div",
        { class: "kinds", role: "group", "aria-label": t("practice.kind") },
        kinds(state.level).map((one) =>
          h(
            "button",
            { type: "button", class: `small kind${one.passed ? " passed" : ""}`, "aria-pressed": String(drill?.kind === one.kind), dataset: { kind: one.kind }, onclick: () => another({ level: one.level, kind: one.kind }) },
            course.translate(one.title),
            one.done ? h("small", {}, t("practice.kind-done", { passed: one.passed, done: one.done })) : null,
          ),
        ),
      ),
    );
    if (focused) controls.querySelector(`[data-level="${focused}"]`)?.focus();
  }

  // ---- worksheet ----------------------------------------------------------------------------------------------------

  const answered = () => drill.steps.filter((step) => step.name in state.answers).length;
  const ended = () => answered() === drill.steps.length;

  function draw() {
    drawControls();
    const [statement] = course.translate(drill.statement).split("\n\n");
    put(
      sheet,
      h("p", { class: "eyebrow" }, t("practice.drill-name", { level: drill.level, seed: drill.seed + 1 })),
      h("h2", {}, course.translate(drill.title)),
      h("p", { class: "drill-statement" }, inline(statement)),
      h("div", { class: "givens" }, Object.entries(drill.given).map(([name, rows]) => matrix(name, rows))),
      h("p", { class: "remark" }, t("practice.how-to-write")),
      h("ol", { class: "steps" }, drill.steps.map((step, i) => h("li", { dataset: { step: step.name } }, drawStep(step, i)))),
      h("div", { class: "drill-end", role: "status" }, ended() ? drawEnd() : null),
    );
  }

  function matrix(name, rows) {
    return h(
      "figure",
      { class: "bracketed" },
      h("figcaption", {}, kit.rich(name), h("span", { "aria-hidden": "true" }, " =")),
      h("table", { "aria-label": name }, h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))),
    );
  }

  function drawStep(step, i) {
    const now = i === answered();
    const result = i < answered() ? results[i] : null;
    const cells = state.answers[step.name];
    const wrong = new Set((result?.cells ?? []).map(([row, column]) => `${row},${column}`));
    const inputs = Array.from({ length: step.rows }, (_, row) =>
      Array.from({ length: step.columns }, (_, column) => {
        const input = h("input", {
          type: "text",
          class: "cell",
          autocomplete: "off",
          spellcheck: "false",
          inputmode: "text",
          "aria-label": step.rows * step.columns === 1 ? step.name : t("practice.cell", { name: step.name, row: row + 1, column: column + 1 }),
          "aria-invalid": wrong.has(`${row},${column}`) ? "true" : null,
          readonly: !now,
          disabled: i > answered(),
          dataset: { row: String(row), column: String(column) },
        });
        input.value = cells?.[row]?.[column] ?? "";
        if (now) input.addEventListener("keydown", (event) => moved(event, row, column));
        return input;
      }),
    );
    function moved(event, row, column) {
      const flat = inputs.flat();
      const at = flat.indexOf(event.target);
      const to = { ArrowUp: inputs[row - 1]?.[column], ArrowDown: inputs[row + 1]?.[column], Enter: flat[at + 1] }[event.key];
      if (event.key === "Enter" && !to) {
        event.preventDefault();
        check(step, inputs);
      } else if (to) {
        event.preventDefault();
        to.focus();
        to.select();
      }
    }
    const outcome = result?.outcome ?? (now ? "now" : "later");
    return h(
      "fieldset",
      { class: `step ${outcome}`, dataset: { outcome } },
      h("legend", {}, h("span", { class: "step-name" }, kit.rich(step.name)), h("span", {}, inline(course.translate(step.ask)))),
      h("div", { class: "step-answer" }, h("div", { class: "cells", style: { "--columns": String(step.columns) } }, inputs), now ? h("button", { type: "button", class: "primary small", onclick: () => check(step, inputs) }, t("practice.check")) : result ? h("span", { class: `mark ${result.passed ? "right" : "wrong"}` }, t(`practice.outcome.${result.outcome}`)) : null),
      h("p", { class: "field-message unread", role: "alert", hidden: true }),
      result && !result.passed && result.outcome !== "blank" ? h("p", { class: "says" }, inline(course.translate(result.says))) : null,
      result && !result.passed && !ended() ? h("p", { class: "remark" }, t("practice.carry-on")) : null,
      result && ended() && result.outcome !== "right" ? drawRight(result) : null,
    );
  }

  function drawRight(result) {
    const typed = (rows) => rows.map((row) => row.join(", ")).join("; ");
    const [follows, right] = [typed(result.expected), typed(result.true)];
    return h(
      "dl",
      { class: "right-answer" },
      follows !== right && !result.passed ? [h("dt", {}, t("practice.follows")), h("dd", {}, follows)] : null,
      h("dt", {}, t("practice.right-answer")),
      h("dd", {}, right),
    );
  }

  function drawEnd() {
    const bad = results.filter((one) => !one.passed).length;
    const carried = results.filter((one) => one.outcome === "carried").length;
    const words = bad === 0 ? t("practice.drill-passed") : carried ? t("practice.drill-carried", { wrong: bad, carried }) : t("practice.drill-failed", { wrong: bad, all: results.length });
    return [
      h("p", { class: bad ? "wrong" : "right" }, h("span", { "aria-hidden": "true" }, bad ? "✗ " : "✓ "), words),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", class: "primary", dataset: { do: "another" }, onclick: () => another({ level: drill.level, kind: state.kind }) }, t("practice.another")),
        h("button", { type: "button", dataset: { do: "again" }, onclick: () => kit.go({ answers: {} }) }, t("practice.same-again")),
      ),
    ];
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  async function check(step, inputs) {
    if (asking) return;
    const cells = inputs.map((row) => row.map((input) => input.value.trim()));
    const empty = inputs.flat().find((input) => !input.value.trim());
    if (empty) {
      empty.focus();
      showError(step, t("practice.cell-empty"));
      return;
    }
    asking = true;
    try {
      const answers = { ...state.answers, [step.name]: cells };
      const answer = await kit.api.post("/api/practice/drill/check", { name: drill.name, answers });
      if (closed) return;
      const at = drill.steps.indexOf(step);
      const result = answer.results[at];
      if (result.outcome === "unread") {
        showError(step, course.translate(result.says));
        return;
      }
      results = answer.results;
      if (at === drill.steps.length - 1) await kit.api.post("/api/practice/drill/check", { name: drill.name, answers, end: true }, { remember: false });
      if (at === drill.steps.length - 1) await course.refresh();
      if (closed) return;
      kit.go({ answers }, { quiet: true });
      state = { ...state, answers };
      draw();
      kit.announce(`${step.name}: ${t(`practice.outcome.${result.outcome}`)}. ${result.passed ? "" : course.translate(result.says)}`);
      (sheet.querySelector(".step.now input") ?? sheet.querySelector(".drill-end button"))?.focus();
    } catch (error) {
      if (!closed) kit.failed(error);
    } finally {
      asking = false;
    }
  }

  function showError(step, words) {
    const note = sheet.querySelector(`li[data-step="${CSS.escape(step.name)}"] .unread`);
    note.textContent = words;
    note.hidden = false;
  }

  /** Open another drill and put its name into the link. */
  async function another({ level, kind }) {
    try {
      const next = await kit.api.post("/api/practice/drill", { level, kind, besides: drill?.name ?? "" }, { remember: false });
      if (closed) return;
      const patch = { level, kind, drill: next.name, answers: {} };
      kit.go(patch, { push: drill !== null, quiet: true });
      await update({ ...state, ...patch });
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  async function update(next) {
    state = next;
    if (!LEVELS.includes(state.level)) state = { ...state, level: 1 };
    if (!state.drill) {
      await another({ level: state.level, kind: course.overview.drills.kinds.some((one) => one.kind === state.kind) ? state.kind : "" });
      return;
    }
    try {
      const before = drill?.name;
      const opened = before === state.drill ? drill : await kit.api.get(`/api/practice/drills/${encodeURIComponent(state.drill)}`);
      const hasAnswers = Object.keys(state.answers).length > 0;
      const answer = hasAnswers ? await kit.api.post("/api/practice/drill/check", { name: opened.name, answers: state.answers }) : { results: [] };
      if (closed) return;
      drill = opened;
      const read = answer.results.findIndex((one) => one.outcome === "unread" || one.outcome === "blank");
      results = read < 0 ? answer.results : answer.results.slice(0, read);
      const answers = Object.fromEntries(drill.steps.slice(0, results.length).map((step) => [step.name, state.answers[step.name]]));
      state = { ...state, level: drill.level, answers };
      draw();
      if (before && !hasAnswers) sheet.querySelector(".step.now input")?.focus({ preventScroll: before !== state.drill });
    } catch (error) {
      if (closed) return;
      kit.failed(error);
      if (error.code === "drill" || error.code === "answers") await another({ level: state.level, kind: "" });
    }
  }

  await update(state);
  return {
    update,
    unmount() {
      closed = true;
    },
  };
}

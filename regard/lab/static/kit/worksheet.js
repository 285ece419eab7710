// The worksheet of a drill: one step after the other is answered and checked, with the learner's own earlier numbers.
// Shared by Practice and Start.
//
// worksheet(element, kit, { changed(answers), ended(passed), another(), again(), more(passed) }) → { load(name, answers), drill() }
//   changed   called with the checked answers after each step; ended after the last one, when the drill is recorded
//   another   opens another drill; again repeats this one; more(passed) returns further elements for the end, if any

import { inline } from "./inline.js";
import { checkHere } from "./worksheet_check.js";

export function worksheet(sheet, kit, { changed, ended = async () => {}, another, again, more = () => null }) {
  const { h, t, put } = kit;
  let drill = null;
  let answers = {};
  let results = []; // results of the steps answered so far
  let asking = false;

  const translate = (words) => words[kit.language()];
  const answered = () => drill.steps.filter((step) => step.name in answers).length;
  const atEnd = () => answered() === drill.steps.length;

  async function judge(name, answers) {
    const ask = (given) => kit.api.post("/api/practice/drill/check", { name, answers: given });
    return kit.edition ? checkHere(await ask({}), answers, kit) : ask(answers);
  }

  function draw() {
    const [statement] = translate(drill.statement).split("\n\n");
    put(
      sheet,
      h("p", { class: "eyebrow" }, t("practice.drill-name", { level: drill.level, seed: drill.seed + 1 })),
      h("h2", {}, translate(drill.title)),
      h("p", { class: "drill-statement" }, inline(statement)),
      h("div", { class: "givens" }, Object.entries(drill.given).map(([name, rows]) => matrix(name, rows))),
      h("p", { class: "remark" }, t("practice.how-to-write")),
      h("ol", { class: "steps" }, drill.steps.map((step, i) => h("li", { dataset: { step: step.name } }, drawStep(step, i)))),
      h("div", { class: "drill-end", role: "status" }, atEnd() ? drawEnd() : null),
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
    const cells = answers[step.name];
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
      h("legend", {}, h("span", { class: "step-name" }, kit.rich(step.name)), h("span", {}, inline(translate(step.ask)))),
      h("div", { class: "step-answer" }, h("div", { class: "cells", style: { "--columns": String(step.columns) } }, inputs), now ? h("button", { type: "button", class: "primary small", onclick: () => check(step, inputs) }, t("practice.check")) : result ? h("span", { class: `mark ${result.passed ? "right" : "wrong"}` }, t(`practice.outcome.${result.outcome}`)) : null),
      h("p", { class: "field-message unread", role: "alert", hidden: true }),
      result && !result.passed && result.outcome !== "blank" ? h("p", { class: "says" }, inline(translate(result.says))) : null,
      result && !result.passed && !atEnd() ? h("p", { class: "remark" }, t("practice.carry-on")) : null,
      result && atEnd() && result.outcome !== "right" ? drawRight(result) : null,
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
    const extra = more(bad === 0);
    return [
      h("p", { class: bad ? "wrong" : "right" }, h("span", { "aria-hidden": "true" }, bad ? "✗ " : "✓ "), words),
      h(
        "div",
        { class: "buttons" },
        extra,
        h("button", { type: "button", class: extra ? null : "primary", dataset: { do: "another" }, onclick: another }, t("practice.another")),
        h("button", { type: "button", dataset: { do: "again" }, onclick: again }, t("practice.same-again")),
      ),
    ];
  }

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
      const typed = { ...answers, [step.name]: cells };
      const answer = await judge(drill.name, typed);
      if (!sheet.isConnected) return;
      const at = drill.steps.indexOf(step);
      const result = answer.results[at];
      if (result.outcome === "unread") {
        showError(step, translate(result.says));
        return;
      }
      results = answer.results;
      if (at === drill.steps.length - 1) {
        if (!kit.edition) await kit.api.post("/api/practice/drill/check", { name: drill.name, answers: typed, end: true }, { remember: false });
        await ended(answer.passed);
      }
      if (!sheet.isConnected) return;
      answers = typed;
      changed(answers);
      draw();
      kit.announce(`${step.name}: ${t(`practice.outcome.${result.outcome}`)}. ${result.passed ? "" : translate(result.says)}`);
      (sheet.querySelector(".step.now input") ?? sheet.querySelector(".drill-end :is(button, a)"))?.focus();
    } catch (error) {
      if (sheet.isConnected) kit.failed(error);
    } finally {
      asking = false;
    }
  }

  function showError(step, words) {
    const note = sheet.querySelector(`li[data-step="${CSS.escape(step.name)}"] .unread`);
    note.textContent = words;
    note.hidden = false;
  }

  return {
    drill: () => drill,
    /** Show a drill with the answers of a link; answers that cannot be read are dropped. Returns the answers that are shown. */
    async load(name, given, isCurrent = () => true) {
      const before = drill?.name;
      const opened = before === name ? drill : await kit.api.get(`/api/practice/drills/${encodeURIComponent(name)}`);
      const hasAnswers = Object.keys(given).length > 0;
      const answer = hasAnswers ? await judge(opened.name, given) : { results: [] };
      if (!isCurrent()) return given;
      drill = opened;
      const read = answer.results.findIndex((one) => one.outcome === "unread" || one.outcome === "blank");
      results = read < 0 ? answer.results : answer.results.slice(0, read);
      answers = Object.fromEntries(drill.steps.slice(0, results.length).map((step) => [step.name, given[step.name]]));
      draw();
      if (before && !hasAnswers) sheet.querySelector(".step.now input")?.focus({ preventScroll: before !== name });
      return answers;
    },
  };
}

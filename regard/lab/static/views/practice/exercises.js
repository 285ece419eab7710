// Exercises: statement, editor, verdict that names the mistake, hints one by one, solution on request.

import { editor } from "./editor.js";
import { inline } from "../../kit/inline.js";
import { markdown } from "./markdown.js";
import { codeBlock } from "./python.js";

let saving = Promise.resolve(); // all saves under way: an exercise is loaded after them, also when the view was left meanwhile

export async function show(root, initial, kit, course) {
  const { h, t, put } = kit;
  let name = null;
  let data = null;
  let writing = null;
  let running = null; // AbortController of the current run
  let closed = false;
  let warned = false; // whether the learner requested the solution once before passing

  const list = h("nav", { class: "exercise-list", "aria-label": t("practice.exercises") });
  const page = h("div", { class: "exercise" });
  put(root, list, page);

  const here = (state) => (course.overview.exercises.some((one) => one.name === state.exercise) ? state.exercise : (course.overview.next ?? course.overview.exercises[0].name));

  function drawList() {
    put(
      list,
      course.overview.exercises.map((one) => {
        const [number] = one.name.split("-");
        const words = [course.translate(one.title), one.core && t("practice.core"), one.passed ? t("practice.passed") : one.attempts ? t("practice.tried") : t("practice.open")];
        const label = `${number} ${words.filter(Boolean).join(" · ")}`;
        const state = one.passed ? "passed" : one.attempts ? "tried" : "open";
        return h(
          "button",
          { type: "button", class: `chip ${state}${one.core ? " core" : ""}`, "aria-current": one.name === name ? "page" : null, "aria-label": label, title: label, dataset: { exercise: one.name }, onclick: () => course.open({ tab: "exercises", exercise: one.name }) },
          one.passed ? `${number} ✓` : number,
        );
      }),
    );
  }

  // ---- one exercise -----------------------------------------------------------------------------------------------

  const verdict = h("div", { class: "verdict", role: "status" });
  const hints = h("ol", { class: "hints" });
  const solution = h("div", { class: "solution" });
  const buttons = h("div", { class: "buttons" });

  /** Save the code after a pause in typing, and at once when the exercise is left. */
  let unkept = null;
  const later = kit.debounced(() => keep(), 800);
  function keep(options = {}) {
    later.stop();
    if (!unkept) return;
    const saved = kit.api.post("/api/practice/code", unkept, { remember: false, ...options }).catch((error) => closed || kit.failed(error));
    unkept = null;
    saving = Promise.all([saving, saved]);
  }

  function draw() {
    const [, ...rest] = course.translate(data.statement).split("\n");
    warned = false;
    writing = editor({
      value: data.code ?? data.starter,
      label: t("practice.your-code"),
      help: t("practice.editor-help"),
      onchange(source) {
        if (kit.saved) return;
        unkept = { exercise: name, source };
        later();
      },
      onrun: run,
    });
    put(verdict);
    put(solution);
    put(
      page,
      h(
        "section",
        { class: "card statement" },
        h("p", { class: "eyebrow" }, `${name.split("-")[0]} · ${data.uses === "torch" ? "PyTorch" : "NumPy"}`, data.passed ? h("span", { class: "tag right" }, t("practice.passed-on", { day: data.passed })) : null),
        h("h2", {}, inline(course.translate(data.statement).split("\n")[0].replace(/^# /, ""))),
        markdown(rest.join("\n"), t("practice.code")),
      ),
      h("section", { class: "work", "aria-label": t("practice.your-answer") }, writing.element, buttons, verdict, hints, solution),
    );
    drawButtons();
    drawHints();
    if (data.verdict) drawVerdict(data.verdict);
  }

  function drawButtons() {
    const hintsShown = data.hints.en.length;
    const busy = running !== null;
    const focused = buttons.contains(document.activeElement) && document.activeElement.dataset.do;
    const button = (what, label, act, options = {}) => h("button", { type: "button", dataset: { do: what }, onclick: act, ...options }, label);
    put(
      buttons,
      kit.runner || kit.saved ? button("run", busy ? t("practice.running") : t("practice.run"), run, { class: "primary", "aria-disabled": busy ? "true" : null }) : h("p", { class: "remark" }, t("practice.no-runner")),
      hintsShown < data.hint_count ? button("hint", hintsShown ? t("practice.hint-more", { n: hintsShown, all: data.hint_count }) : t("practice.hint"), hint) : null,
      button("solution", data.passed ? t("practice.solution") : warned ? t("practice.solution-sure") : t("practice.solution"), solve, { class: warned ? "warned" : "quiet" }),
      button("starter", t("practice.starter"), starter, { class: "quiet" }),
    );
    if (focused) (buttons.querySelector(`[data-do=${focused}]`) ?? buttons.querySelector("button"))?.focus();
  }

  function drawHints() {
    put(hints, course.translate(data.hints).map((text, i) => h("li", {}, h("p", { class: "eyebrow" }, t("practice.hint-number", { n: i + 1, all: data.hint_count })), markdown(text, t("practice.code")))));
  }

  function drawVerdict(one) {
    const formatted = (words) => inline(course.translate(words));
    const block = (title, text, kind = "") => h("div", { class: `seen ${kind}` }, h("h4", {}, title), codeBlock(text, title));
    verdict.className = `verdict ${one.passed ? "right" : "wrong"}`;
    verdict.dataset.kind = one.kind;
    verdict.dataset.mistake = one.mistake ?? "";
    const failing = one.failing;
    put(
      verdict,
      h("h3", {}, h("span", { class: "sign", "aria-hidden": "true" }, one.passed ? "✓" : "✗"), h("span", {}, formatted(one.title))),
      h("p", {}, formatted(one.message)),
      failing && [
        h("p", { class: "case" }, t("practice.case", { name: course.translate(failing.name) })),
        failing.inputs ? block(t("practice.given"), failing.inputs) : null,
        h("div", { class: "beside" }, block(failing.which ? t("practice.expected-which", { which: course.translate(failing.which).replaceAll("`", "") }) : t("practice.expected"), failing.expected, "expected"), block(t("practice.yours"), failing.yours, "yours")),
      ],
      one.printed ? h("details", {}, h("summary", {}, t("practice.printed")), codeBlock(one.printed, t("practice.printed"))) : null,
      one.isolated ? null : h("p", { class: "remark" }, t("practice.not-isolated")),
      one.passed ? next() : null,
    );
  }

  function next() {
    const open = course.overview.exercises.find((one) => !one.passed);
    if (!open) return h("p", { class: "case" }, t("practice.all-passed"));
    return h("button", { type: "button", class: "go-on", onclick: () => course.open({ tab: "exercises", exercise: open.name }) }, t("practice.go-on", { title: course.translate(open.title) }), h("span", { "aria-hidden": "true" }, " →"));
  }

  // ---- actions of the buttons ---------------------------------------------------------------------------------------

  async function run() {
    if (running) return;
    unkept = null; // a run saves the code as well
    running = new AbortController();
    const of = name;
    verdict.className = "verdict waiting";
    put(verdict, h("p", {}, h("span", { class: "spinner", "aria-hidden": "true" }), h("span", { class: "how-far" }, t("practice.sent"))));
    drawButtons();
    try {
      const onprogress = (job) => {
        const line = verdict.querySelector(".how-far");
        const text = t(`practice.job.${job.status}`);
        if (line && line.textContent !== text) line.textContent = text;
      };
      const answer = await kit.api.job("/api/practice/run", { exercise: of, source: writing.value() }, { onprogress, signal: running.signal });
      if (closed || of !== name) return;
      await course.refresh();
      data = await kit.api.get(`/api/practice/exercises/${of}`);
      drawList();
      drawVerdict(answer);
    } catch (error) {
      if (closed || of !== name) return;
      put(verdict);
      verdict.className = "verdict";
      kit.failed(error);
    } finally {
      running = null;
      if (!closed) drawButtons();
    }
  }

  async function hint() {
    try {
      data = await kit.api.post("/api/practice/hint", { exercise: name }, { remember: false });
      if (closed) return;
      drawHints();
      drawButtons();
      hints.lastElementChild?.scrollIntoView({ block: "nearest", behavior: kit.reducedMotion() ? "auto" : "smooth" });
      kit.announce(hints.lastElementChild?.textContent ?? "");
    } catch (error) {
      kit.failed(error);
    }
  }

  async function solve() {
    if (!data.passed && !warned) {
      warned = true;
      drawButtons();
      kit.announce(t("practice.solution-sure"));
      return;
    }
    try {
      const answer = await kit.api.post("/api/practice/solution", { exercise: name });
      if (closed) return;
      const ways = Object.entries(answer.others);
      put(
        solution,
        h("h3", {}, t("practice.our-solution")),
        codeBlock(answer.ours, t("practice.our-solution")),
        ways.length ? h("h3", {}, t("practice.other-ways")) : null,
        ways.map(([way, code]) => h("details", {}, h("summary", {}, way.replaceAll("_", " ")), codeBlock(code, way))),
      );
      solution.scrollIntoView({ block: "nearest", behavior: kit.reducedMotion() ? "auto" : "smooth" });
    } catch (error) {
      kit.failed(error);
    }
  }

  function starter() {
    const before = writing.value();
    if (before === data.starter) return;
    writing.input.focus();
    writing.input.select();
    document.execCommand("insertText", false, data.starter); // undo restores the learner's code
  }

  async function update(state) {
    const target = here(state);
    if (target === name) return;
    running?.abort();
    running = null;
    keep();
    name = target;
    drawList();
    try {
      await saving;
      const answer = await kit.api.get(`/api/practice/exercises/${target}`);
      if (closed || target !== name) return;
      data = answer;
      draw();
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  const keepBeforeLeaving = () => keep({ keepalive: true });
  addEventListener("pagehide", keepBeforeLeaving);
  await update(initial);
  return {
    update,
    unmount() {
      removeEventListener("pagehide", keepBeforeLeaving);
      keep();
      closed = true;
      running?.abort();
    },
  };
}

// Drills: computing attention by hand. Each step is checked when it is answered, using the learner's own earlier numbers.

import { worksheet } from "../../kit/worksheet.js";

const LEVELS = [1, 2, 3, 4, 5];

export async function show(root, initial, kit, course) {
  const { h, t, put } = kit;
  let state = initial;
  let closed = false;

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
            { type: "button", class: `small kind${one.passed ? " passed" : ""}`, "aria-pressed": String(paper.drill()?.kind === one.kind), dataset: { kind: one.kind }, onclick: () => another({ level: one.level, kind: one.kind }) },
            course.translate(one.title),
            one.done ? h("small", {}, t("practice.kind-done", { passed: one.passed, done: one.done })) : null,
          ),
        ),
      ),
    );
    if (focused) controls.querySelector(`[data-level="${focused}"]`)?.focus();
  }

  const paper = worksheet(sheet, kit, {
    changed(answers) {
      kit.go({ answers }, { quiet: true });
      state = { ...state, answers };
      drawControls();
    },
    ended: () => course.refresh(),
    another: () => another({ level: paper.drill().level, kind: state.kind }),
    again: () => kit.go({ answers: {} }),
  });

  /** Open another drill and put its name into the link. */
  async function another({ level, kind }) {
    try {
      const next = await kit.api.post("/api/practice/drill", { level, kind, besides: paper.drill()?.name ?? "" }, { remember: false });
      if (closed) return;
      const patch = { level, kind, drill: next.name, answers: {} };
      kit.go(patch, { push: paper.drill() !== null, quiet: true });
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
      const answers = await paper.load(state.drill, state.answers, () => !closed);
      if (closed) return;
      state = { ...state, level: paper.drill().level, answers };
      drawControls();
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

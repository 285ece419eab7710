// Step 5 of Start: the learner computes one row of attention by hand, on the worksheet of the drills.

import { worksheet } from "../../kit/worksheet.js";

const KIND = { level: 2, kind: "one-query" };

export function show(root, initial, kit, story) {
  const { h, t, put } = kit;
  let state = initial;
  let closed = false;

  const sheet = h("section", { class: "card drill" });
  put(root, h("p", { class: "start-lead" }, t("start.row.lead")), sheet);
  const paper = worksheet(sheet, kit, {
    changed(answers) {
      kit.go({ answers }, { quiet: true });
      state = { ...state, answers };
    },
    ended: () => kit.complete("intuition"),
    another: () => another(),
    again: () => kit.go({ answers: {} }),
    more: (passed) => h("button", { type: "button", class: passed ? "primary" : null, dataset: { do: "onward" }, onclick: () => story.go("onward") }, t("start.row.onward")),
  });

  async function another() {
    try {
      const next = await kit.api.post("/api/practice/drill", { ...KIND, besides: paper.drill()?.name ?? "" }, { remember: false });
      if (!closed) kit.go({ drill: next.name, answers: {} });
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  async function load() {
    if (!state.drill) {
      await another();
      return;
    }
    try {
      const answers = await paper.load(state.drill, state.answers, () => !closed);
      if (!closed) state = { ...state, answers };
    } catch (error) {
      if (closed) return;
      if (error.code === "drill" || error.code === "answers") await another();
      else kit.failed(error);
    }
  }

  load();
  return {
    update(next) {
      state = next;
      load();
    },
    unmount() {
      closed = true;
    },
  };
}

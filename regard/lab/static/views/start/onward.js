// Step 6 of Start: exercise 02, what the learner can do now, where the other views lead, and a reading list.

import { facts } from "../../kit/facts.js";

const GOALS = [0, 1, 2, 3];
const NEXT = { trace: "#/trace", heads: "#/heads?mode=phrases", drills: "#/practice?tab=drills", cards: "#/practice?tab=cards", breakit: "#/breakit", claims: "#/claims" };
const READING = { original: ["vaswani", "illustrated"], models: ["bert", "gpt1", "gpt2", "gpt3", "llama"], positions: ["rotary", "alibi"], books: ["d2l", "jurafsky"] };

export function show(root, initial, kit) {
  const { h, t, put } = kit;
  const views = Object.entries(NEXT).filter(([name]) => name !== "breakit" || facts.views.includes("breakit"));
  put(
    root,
    h("p", { class: "start-lead" }, t("start.onward.lead")),
    h(
      "div",
      { class: "start-two" },
      h(
        "section",
        { class: "card onward-next" },
        h("h3", {}, t("start.onward.exercise")),
        h("p", {}, t("start.onward.exercise-said")),
        h("a", { class: "button onward-exercise", href: "#/practice?tab=exercises&exercise=02-one-query" }, t("start.onward.open"), h("span", { "aria-hidden": "true" }, "→")),
        h("h3", {}, t("start.onward.views")),
        h("ul", { class: "onward-views" }, views.map(([name, link]) => h("li", {}, h("a", { href: link }, t(`start.onward.view.${name}`)), " ", h("span", { class: "faint" }, t(`start.onward.view-said.${name}`))))),
      ),
      h("section", { class: "card" }, h("h3", {}, t("start.onward.goals")), h("ul", { class: "onward-goals" }, GOALS.map((n) => h("li", {}, kit.rich(t(`start.goal.${n}`)))))),
    ),
    h(
      "section",
      { class: "card reading-list" },
      h("h3", {}, t("start.reading-list")),
      h("p", { class: "remark" }, t("start.reading-said")),
      Object.entries(READING).map(([group, entries]) => [
        h("h4", {}, t(`start.texts.${group}`)),
        h("ul", {}, entries.map((name) => h("li", { dataset: { reading: name } }, h("cite", { lang: "en" }, t(`start.text-title.${name}`)), " ", h("span", { class: "faint" }, t(`start.text-by.${name}`)), h("p", {}, kit.rich(t(`start.text-look.${name}`)))))),
      ]),
    ),
  );
  return {};
}

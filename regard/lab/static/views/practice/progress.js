// Progress: the four requirements for mastery, the next steps, and the state of every part of the course.

import { inline } from "../../kit/inline.js";

const PLACES = { flow: "diagram", hand: "drills", exercises: "exercises", cards: "cards" };

export async function show(root, initial, kit, course) {
  const { h, s, t, put } = kit;
  let closed = false;

  function ring(have, need) {
    const share = Math.min(1, need ? have / need : 1);
    const round = 2 * Math.PI * 20;
    return s(
      "svg",
      { viewBox: "0 0 52 52", class: `ring${share === 1 ? " full" : ""}`, "aria-hidden": "true" },
      s("circle", { cx: 26, cy: 26, r: 20, class: "ring-back" }),
      share > 0 ? s("circle", { cx: 26, cy: 26, r: 20, class: "ring-front", "stroke-dasharray": `${(share * round).toFixed(2)} ${round.toFixed(2)}`, transform: "rotate(-90 26 26)" }) : null,
      share === 1 ? s("path", { d: "M18 26.5 24 32.5 35 20.5", class: "ring-tick" }) : s("text", { x: 26, y: 30.5, "text-anchor": "middle", class: "ring-text" }, `${Math.round(100 * share)}%`),
    );
  }

  function mastery({ checklist }) {
    const done = checklist.filter((one) => one.done).length;
    return h(
      "section",
      { class: "mastery", "aria-labelledby": "mastery-title" },
      h("h2", { id: "mastery-title" }, done === checklist.length ? t("practice.mastered") : t("practice.mastery", { done, all: checklist.length })),
      h(
        "ol",
        { class: "checklist" },
        checklist.map((one) =>
          h(
            "li",
            {},
            h(
              "button",
              { type: "button", class: `goal${one.done ? " done" : ""}`, dataset: { goal: one.name }, onclick: () => course.open({ tab: PLACES[one.name], ...(one.name === "hand" ? { level: 3 } : {}) }) },
              ring(one.have, one.need),
              h("span", {}, h("span", { class: "goal-title" }, course.translate(one.title)), h("span", { class: "goal-count" }, t("practice.of", { have: Math.min(one.have, one.need), need: one.need }))),
            ),
          ),
        ),
      ),
    );
  }

  function coming(all) {
    const exercise = all.exercises.find((one) => one.name === all.next);
    const diagram = all.diagrams.find((one) => !one.done);
    const level = [1, 2, 3, 4, 5].find((n) => !all.drills.kinds.some((one) => one.level === n && one.passed));
    const rows = [
      all.cards.due && { words: t("practice.next-cards", { n: all.cards.due }), open: { tab: "cards" } },
      exercise && { words: t("practice.next-exercise", { title: course.translate(exercise.title) }), open: { tab: "exercises", exercise: exercise.name } },
      level && { words: t("practice.next-drill", { level }), open: { tab: "drills", level } },
      diagram && { words: t("practice.next-diagram", { title: course.translate(diagram.title) }), open: { tab: "diagram", diagram: diagram.name, edges: [] } },
      !all.cards.due && all.cards.new && { words: t("practice.next-new", { n: all.cards.new }), open: { tab: "cards" } },
      { words: t("practice.next-interview"), open: { tab: "interview" } },
    ].filter(Boolean);
    return h(
      "section",
      { class: "card next" },
      h("h2", {}, t("practice.next")),
      h("ol", {}, rows.slice(0, 4).map((row, i) => h("li", {}, h("button", { type: "button", class: i ? "" : "primary", onclick: () => course.open(row.open) }, h("span", {}, row.words), h("span", { "aria-hidden": "true" }, "→"))))),
    );
  }

  function exercises(all) {
    const passed = all.exercises.filter((one) => one.passed).length;
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("practice.tab.exercises"), h("small", {}, t("practice.of", { have: passed, need: all.exercises.length }))),
      h(
        "ol",
        { class: "exercise-rows" },
        all.exercises.map((one) => {
          const [number] = one.name.split("-");
          const state = one.passed ? "passed" : one.attempts ? "tried" : "open";
          return h(
            "li",
            {},
            h(
              "button",
              { type: "button", class: `link row ${state}`, dataset: { row: one.name }, onclick: () => course.open({ tab: "exercises", exercise: one.name }) },
              h("span", { class: "sign", "aria-hidden": "true" }, one.passed ? "✓" : one.attempts ? "◐" : "○"),
              h("span", { class: "row-number" }, number),
              h("span", { class: "row-title" }, inline(course.translate(one.title))),
              one.core ? h("span", { class: "tag" }, t("practice.core")) : null,
              h("span", { class: "visually-hidden" }, t(`practice.${state}`)),
            ),
          );
        }),
      ),
    );
  }

  function cards({ cards: summary }) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("practice.tab.cards"), h("small", {}, t("practice.cards-count", { ease: summary.at_ease, all: summary.cards, due: summary.due }))),
      h(
        "ul",
        { class: "topics" },
        summary.topics.map((one) =>
          h(
            "li",
            {},
            h("button", { type: "button", class: "link", onclick: () => course.open({ tab: "cards", topic: one.name }) }, course.translate(one.title)),
            h("span", { class: "bar", "aria-hidden": "true" }, h("span", { class: "bar-seen", style: { width: `${(100 * one.seen) / one.cards}%` } }), h("span", { class: "bar-ease", style: { width: `${(100 * one.at_ease) / one.cards}%` } })),
            h("span", { class: "bar-count" }, h("span", { class: "visually-hidden" }, t("practice.count.at-ease")), ` ${one.at_ease}/${one.cards}`, one.due ? h("span", { class: "badge" }, t("practice.due-short", { n: one.due })) : null),
          ),
        ),
      ),
    );
  }

  function drills({ drills: summary }) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("practice.tab.drills")),
      h(
        "ul",
        { class: "levels-list" },
        [1, 2, 3, 4, 5].map((level) =>
          h(
            "li",
            {},
            h("span", { class: "label" }, t("practice.level-n", { n: level })),
            h(
              "span",
              { class: "kinds" },
              summary.kinds
                .filter((one) => one.level === level)
                .map((one) =>
                  h("button", { type: "button", class: `small kind${one.passed ? " passed" : ""}`, onclick: () => course.open({ tab: "drills", level, kind: one.kind }) }, one.passed ? h("span", { "aria-hidden": "true" }, "✓ ") : null, course.translate(one.title), one.passed ? h("span", { class: "visually-hidden" }, t("practice.done")) : null),
                ),
            ),
          ),
        ),
      ),
    );
  }

  function myths({ wrong }) {
    return h(
      "section",
      { class: "card myths" },
      h("h2", {}, t("practice.myths")),
      h("p", { class: "remark" }, t("practice.myths-said")),
      h("ol", {}, wrong.map((one) => h("li", {}, h("span", { class: "sign", "aria-hidden": "true" }, "✗"), h("span", { class: "myth-said" }, course.translate(one.said)), h("button", { type: "button", class: "link", "aria-label": `${t("practice.see-why")}: ${course.translate(one.said)}`, onclick: () => course.open({ tab: "cards", topic: "", card: one.card }) }, t("practice.see-why"))))),
    );
  }

  function file(all) {
    const part = kit.choiceField({
      label: t("practice.forget"),
      value: "cards",
      options: ["exercises", "drills", "cards", "flow", "all"].map((name) => [name, t(`practice.forget.${name}`)]),
      onchange: () => sure(false),
    });
    const button = h("button", { type: "button", dataset: { do: "forget" }, onclick: () => (button.dataset.sure ? forget() : sure(true)) }, t("practice.forget-do"));
    const sure = (yes) => {
      if (yes) button.dataset.sure = "yes";
      else delete button.dataset.sure;
      button.classList.toggle("warned", yes);
      button.textContent = yes ? t("practice.forget-sure", { what: t(`practice.forget.${part.value()}`) }) : t("practice.forget-do");
      if (yes) kit.announce(button.textContent);
    };
    async function forget() {
      try {
        await kit.api.post("/api/practice/forget", { part: part.value() }, { remember: false });
        await course.refresh();
        if (closed) return;
        kit.toast(t("practice.forgotten"));
        draw();
        root.querySelector("[data-do=forget]").focus();
      } catch (error) {
        kit.failed(error);
      }
    }
    return h(
      "details",
      { class: "card file" },
      h("summary", {}, t("practice.file")),
      h("p", {}, t("practice.file-said"), " ", h("code", {}, all.file)),
      all.notice ? h("p", { class: "wrong" }, all.notice) : null,
      h("div", { class: "forget" }, part.element, button),
    );
  }

  function draw() {
    const all = course.overview;
    put(root, mastery(all), h("div", { class: "progress-grid" }, h("div", { class: "stack" }, coming(all), exercises(all)), h("div", { class: "stack" }, cards(all), drills(all))), myths(all), file(all));
  }

  if (!course.fresh) await course.refresh(); // commands in a terminal may have changed the progress
  draw();
  return {
    update: () => {},
    unmount() {
      closed = true;
    },
  };
}

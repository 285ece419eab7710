// One question of the cards and the interview: the question, the standard answer and details on request,
// a command or view that shows it, and grading by the keys 1 to 4.

import { inline } from "../../kit/inline.js";

export const GRADES = ["again", "hard", "good", "easy"];

/** Format the time until a card returns. */
export function wait(seconds, t) {
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 60) return t("practice.minutes", { n: minutes });
  const hours = Math.round(seconds / 3600);
  if (hours < 20) return t("practice.hours", { n: hours });
  return t("practice.days", { n: Math.max(1, Math.round(seconds / 86400)) });
}

/** Return the link of the view Trace that corresponds to a `regard trace` command; null for other commands. */
export function traceLink(command, kit) {
  const words = [...command.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare);
  if (words[0] !== "regard" || words[1] !== "trace" || words.includes("--context")) return null;
  const STEPS = { weights: "softmax", maximum: "softmax", exponentials: "softmax", sum: "softmax" };
  const state = { text: words[2] };
  for (let i = 3; i < words.length; i++) {
    if (words[i] === "--no-scale") state.scale = false;
    else {
      const value = words[++i];
      const name = words[i - 1].slice(2);
      if (name === "step") state.step ??= STEPS[value] ?? value;
      else if (name === "mask") state.mask = value;
      else state[name.replace("-", "_")] = Number(value);
    }
  }
  return kit.link("trace", state);
}

/**
 * Return a card as an element; `answered` and `graded` are called when the learner shows the answer and grades it.
 * With `next`, which opens the next card, a button for it stands in place of the grades.
 */
export function question(card, kit, course, { graded, answered = () => {}, open = false, intervals = true, next = null }) {
  const { h, t, put } = kit;
  const place = h("div", { class: "answer" });
  let shown = false;
  let detail = null;

  function answer() {
    if (shown) return;
    shown = true;
    answered();
    detail = h("p", { class: "detail", hidden: true }, inline(course.translate(card.detail)));
    const more = h("button", { type: "button", class: "small", "aria-expanded": "false", dataset: { do: "detail" }, onclick: toggle }, t("practice.detail"), h("kbd", {}, "D"));
    put(
      place,
      h("p", { class: "standard", tabindex: -1 }, inline(course.translate(card.answer))),
      card.wrong.map((misconception) => h("p", { class: "myth" }, h("strong", {}, t("practice.myth")), " ", course.translate(misconception))),
      h("div", { class: "buttons" }, more),
      detail,
      seeAlso(),
      grades(),
    );
    place.querySelector(".standard").focus({ preventScroll: true });
    function toggle() {
      detail.hidden = !detail.hidden;
      more.setAttribute("aria-expanded", String(!detail.hidden));
    }
  }

  function seeAlso() {
    const view = card.shows.startsWith("lab: ") ? card.shows.slice(5) : null;
    if (view) {
      const there = kit.hasText(`${view}.name`);
      return h("p", { class: "seen-in" }, t("practice.see-it"), " ", there ? h("a", { href: kit.link(view, {}) }, kit.t(`${view}.name`)) : h("code", {}, `regard lab · ${view}`));
    }
    const printed = h("div", { class: "printed" });
    const link = traceLink(card.shows, kit);
    const button = h("button", { type: "button", class: "small", onclick: run, dataset: { do: "show" } }, t("practice.run-it"));
    async function run() {
      if (button.getAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true");
      put(printed, h("p", { class: "remark", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), " ", t("practice.job.running")));
      try {
        const done = await kit.api.job("/api/practice/show", { card: card.id });
        put(printed, h("pre", { class: "code-block", tabindex: 0, role: "region", "aria-label": card.shows }, done.printed.trimEnd()));
      } catch (error) {
        put(printed);
        kit.failed(error);
      } finally {
        button.removeAttribute("aria-disabled");
      }
    }
    return h("div", { class: "seen-in" }, h("p", {}, t("practice.see-it"), " ", h("code", {}, card.shows)), h("div", { class: "buttons" }, kit.edition ? null : button, link && !kit.edition ? h("a", { class: "button small", href: link }, t("practice.open-trace")) : null), printed);
  }

  function grades() {
    if (next) return h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", dataset: { do: "next" }, onclick: next }, t("static.next-card")));
    return h(
      "div",
      { class: "grades", role: "group", "aria-label": t("practice.how-it-went") },
      GRADES.map((grade, i) =>
        h("button", { type: "button", class: `grade ${grade}`, dataset: { grade }, onclick: () => graded(grade) }, h("kbd", {}, String(i + 1)), h("span", {}, t(`practice.grade.${grade}`)), intervals ? h("small", {}, wait(card.waits[i], t)) : null),
      ),
    );
  }

  const reveal = h("button", { type: "button", class: "primary", dataset: { do: "answer" }, onclick: answer }, t("practice.show-answer"), h("kbd", {}, t("practice.space")));
  put(place, h("div", { class: "buttons" }, reveal));
  const element = h(
    "article",
    { class: "card question", dataset: { card: card.id } },
    h("p", { class: "eyebrow" }, course.translate(card.topic), card.seen ? null : h("span", { class: "tag" }, t("practice.new"))),
    h("h2", { tabindex: -1 }, inline(course.translate(card.question))),
    place,
  );
  if (open) answer();

  /** Handle a key; keys typed into a form field are ignored. */
  function key(event) {
    const within = event.target.closest?.("input, textarea, select, pre");
    if (within || event.ctrlKey || event.altKey || event.metaKey) return;
    const pressed = event.target.closest?.("button, a, summary");
    if (event.key === " " && !shown && !pressed) {
      event.preventDefault();
      answer();
    } else if (shown && !next && "1234".includes(event.key)) {
      event.preventDefault();
      graded(GRADES[Number(event.key) - 1]);
    } else if (shown && event.key.toLowerCase() === "d") place.querySelector("[data-do=detail]").click();
  }
  return { element, key, focus: () => element.querySelector("h2").focus({ preventScroll: true }) };
}

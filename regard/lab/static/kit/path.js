// The learning path across the views: intuition → formula → by hand → code → break it → interview. A bar shows the
// position of the open view and the next stage. Which stages are done is stored with the learner's progress.

import * as api from "./api.js";
import { h, put } from "./dom.js";
import { edition, facts, saved } from "./facts.js";
import { t } from "./text.js";

const STAGES = {
  intuition: { view: "start", link: "#/start" },
  formula: { view: "trace", link: "#/trace" },
  hand: { view: "practice", link: "#/practice?tab=drills", tabs: ["drills"] },
  code: { view: "practice", link: "#/practice?tab=exercises&exercise=02-one-query", tabs: ["exercises"] },
  break: { view: "breakit", link: "#/breakit" },
  interview: { view: "practice", link: "#/practice?tab=interview", tabs: ["interview", "cards"] },
};

const names = Object.keys(STAGES).filter((name) => facts.views.includes(STAGES[name].view));
const element = h("nav", { class: "path", hidden: true });
let done = null; // Set of completed stages; null until the server has answered
let shown = ""; // what the bar shows; it is drawn again only when that changes

/** Return the stage that a view in a state belongs to, or null. */
export function stageOf(view, state) {
  return names.find((name) => STAGES[name].view === view && (STAGES[name].tabs?.includes(state.tab) ?? true)) ?? null;
}

export const path = {
  element,
  /** Show the position of a view; views outside the path have no bar. */
  show(view, state) {
    element.hidden = saved !== null || edition !== null || !names.some((name) => STAGES[name].view === view);
    if (element.hidden) {
      put(element);
      shown = "";
      return;
    }
    const here = stageOf(view, state);
    const now = JSON.stringify([here, done && [...done], t("path")]);
    if (now === shown) return;
    shown = now;
    const next = here ? names[names.indexOf(here) + 1] : names.find((name) => !done?.has(name));
    element.setAttribute("aria-label", t("path"));
    put(
      element,
      h("span", { class: "path-title" }, t("path")),
      h(
        "ol",
        {},
        names.map((name, i) =>
          h(
            "li",
            {},
            h(
              "a",
              { href: STAGES[name].link, class: done?.has(name) ? "done" : null, "aria-current": name === here ? "location" : null, dataset: { stage: name }, title: t(`path.${name}`) },
              h("span", { class: "path-number", "aria-hidden": "true" }, done?.has(name) ? "✓" : String(i + 1)),
              h("span", { class: "path-name" }, t(`path.${name}`)),
              done?.has(name) ? h("span", { class: "visually-hidden" }, t("path.done")) : null,
            ),
          ),
        ),
      ),
      next ? h("a", { class: "path-next", href: STAGES[next].link }, t("path.next", { stage: t(`path.${next}`) })) : null,
    );
  },
  /** Ask which stages are done; called after the view is drawn. */
  async refresh(view, state) {
    if (element.hidden) return;
    try {
      read(await api.get("/api/path", { remember: false }));
      path.show(view, state);
    } catch {
      // without an answer the bar shows the position only
    }
  },
  /** Record a stage that the learner has completed on the page. */
  async complete(stage, view, state) {
    if (saved || edition || done?.has(stage)) return;
    try {
      read(await api.post("/api/path", { stage }, { remember: false }));
      path.show(view, state);
    } catch {
      // the stage can be completed again later
    }
  },
};

function read({ stages }) {
  done = new Set(stages.filter((one) => one.done).map((one) => one.name));
}

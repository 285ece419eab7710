// The view Practice: graded exercises, drills by hand, cards, a mock interview, the diagram, and progress.
// Each part is a module in practice/ with show(root, state, kit, course) → { update(state), unmount(), picture() }.

import { show as cards } from "./practice/cards.js";
import { show as diagram } from "./practice/diagram.js";
import { show as drills } from "./practice/drills.js";
import { show as exercises } from "./practice/exercises.js";
import { show as interview } from "./practice/interview.js";
import { show as progress } from "./practice/progress.js";

export const defaults = {
  tab: "progress",
  exercise: "",
  level: 1,
  kind: "",
  drill: "",
  answers: {},
  topic: "",
  card: "",
  seed: -1,
  diagram: "self-attention",
  edges: [],
};

const TABS = { progress, exercises, drills, cards, interview, diagram };
const PREPARED = "cards"; // the part that the static edition contains; progress, which is the learner's, has no place there

export async function mount(root, initial, kit) {
  const { h, t, put } = kit;
  let state = initial;
  let open = { tab: null, part: null };
  let turn = 0;

  /** Shared by all parts: the server's latest overview. */
  const course = {
    overview: null,
    fresh: false, // whether the overview was just fetched, so that the first part need not fetch it again
    async refresh() {
      course.overview = await kit.api.get("/api/practice");
      drawTabs();
      return course.overview;
    },
    translate: (words) => words[kit.language()],
    open: (patch) => kit.go({ exercise: "", drill: "", answers: {}, card: "", ...patch }, { push: true }),
  };

  // The buttons are created once: a button that is replaced between press and release loses the click.
  const names = Object.keys(TABS).filter((tab) => !kit.edition || tab !== "progress");
  const buttons = names.map((tab) => h("button", { type: "button", class: "quiet tab", dataset: { tab }, onclick: () => course.open({ tab }) }));
  const tabs = h("nav", { class: "practice-tabs", "aria-label": t("practice.parts") }, buttons);
  const place = h("div", { class: "practice-part" });
  put(root, tabs, place);

  function drawTabs() {
    const counts = { cards: course.overview?.cards.due || 0 };
    for (const button of buttons) {
      const { tab } = button.dataset;
      if (tab === shownTab()) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
      put(button, t(`practice.tab.${tab}`), counts[tab] ? h("span", { class: "badge", title: t("practice.due", { n: counts[tab] }) }, String(counts[tab])) : null);
    }
  }

  const shownTab = () => (names.includes(state.tab) ? state.tab : kit.edition ? PREPARED : "progress");

  async function update(next) {
    state = next;
    const tab = shownTab();
    if (open.tab === tab) {
      await open.part?.update?.(state);
      return;
    }
    const request = ++turn;
    open.part?.unmount?.();
    open = { tab, part: null };
    drawTabs();
    const room = h("div", { class: `part part-${tab}` });
    const part = kit.edition && tab !== PREPARED ? (put(room, kit.needsPython()), {}) : await TABS[tab](room, state, kit, course);
    if (request !== turn) {
      part?.unmount?.();
      return;
    }
    put(place, room);
    open.part = part;
    if (tabs.contains(document.activeElement)) part.focus?.(); // so that its keys work at once
  }

  try {
    await course.refresh();
  } catch (error) {
    kit.failed(error);
    return {};
  }
  course.fresh = true;
  await update(state);
  course.fresh = false;
  return {
    update,
    unmount() {
      turn++;
      open.part?.unmount?.();
    },
    get picture() {
      return open.part?.picture;
    },
  };
}

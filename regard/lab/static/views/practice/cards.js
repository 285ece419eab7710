// Cards: what is due first, then what is new; each comes again just before it would be forgotten.

import { question, wait } from "./ask.js";

export async function show(root, given, kit, course) {
  const { h, t, put } = kit;
  const known = (name) => (course.overview.cards.topics.some((one) => one.name === name) ? name : "");
  let state = { ...given, topic: known(given.topic) };
  let asked = null; // the question that is on the page
  let closed = false;
  let going = false;
  let shown = "";

  const topic = kit.choiceField({
    label: t("practice.topic"),
    value: state.topic,
    options: [["", t("practice.all-topics")], ...course.overview.cards.topics.map((one) => [one.name, course.said(one.title)])],
    onchange: (name) => kit.go({ topic: name, card: "" }, { push: true }),
  });
  const counts = h("dl", { class: "counts" });
  const place = h("div", { class: "question-place" });
  const note = h("p", { class: "remark", role: "status" });
  put(root, h("div", { class: "card card-controls" }, topic.element, counts), place, note, h("p", { class: "remark" }, t("practice.cards-how")));

  function drawCounts(found) {
    const rows = [["due", found.due], ["new", found.new], ["at-ease", `${found.at_ease} / ${found.cards}`]];
    put(counts, rows.map(([key, value]) => h("div", { class: `count-${key}` }, h("dt", {}, t(`practice.count.${key}`)), h("dd", {}, String(value)))));
  }

  async function load() {
    const all = `/api/practice/cards?topic=${encodeURIComponent(state.topic)}`;
    try {
      if (!state.card) return await kit.api.get(all);
      return await kit.api.get(`/api/practice/cards/${encodeURIComponent(state.card)}`);
    } catch (error) {
      if (!state.card || (error.code !== "card" && error.code !== "saved")) throw error;
      return kit.api.get(all);
    }
  }

  async function next({ focus = false } = {}) {
    try {
      const found = await load();
      if (closed) return;
      drawCounts(found.counts);
      if (!found.card) {
        asked = null;
        shown = "";
        const when = found.next_due ? wait((new Date(found.next_due) - Date.now()) / 1000, t) : "";
        put(place, h("div", { class: "card nothing" }, h("h2", { tabindex: -1 }, t("practice.none-due")), h("p", {}, when ? t("practice.next-card", { when }) : "")));
        place.querySelector("h2").focus();
        return;
      }
      shown = found.card.id;
      asked = question(found.card, kit, course, { graded: (grade) => graded(found.card, grade) });
      put(place, asked.element);
      kit.go({ card: found.card.id }, { quiet: true });
      state = { ...state, card: found.card.id };
      if (focus) asked.focus();
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  async function graded(card, grade) {
    if (going) return;
    going = true;
    try {
      const done = await kit.api.post("/api/practice/grade", { card: card.id, grade }, { remember: false });
      const words = course.said(card.question);
      note.textContent = t("practice.asked-again", { question: words.length > 60 ? `${words.slice(0, 59)}…` : words, when: wait(done.seconds, t) });
      await course.refresh();
      if (closed) return;
      kit.go({ card: "" }, { quiet: true });
      state = { ...state, card: "" };
      await next({ focus: true });
    } catch (error) {
      if (!closed) kit.failed(error);
    } finally {
      going = false;
    }
  }

  const key = (event) => asked?.key(event);
  document.addEventListener("keydown", key);

  async function update(changed) {
    const other = changed.topic !== state.topic || (changed.card || shown) !== shown;
    state = { ...changed, topic: known(changed.topic) };
    topic.set(state.topic);
    if (other || !shown) await next();
  }

  await next();
  return {
    update,
    focus: () => asked?.focus(),
    unmount() {
      closed = true;
      document.removeEventListener("keydown", key);
    },
  };
}

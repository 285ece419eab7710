// Cards: due cards first, then new ones; spaced repetition decides when a card returns.

import { question, wait } from "./ask.js";

export async function show(root, initial, kit, course) {
  const { h, t, put } = kit;
  const validTopic = (name) => (course.overview.cards.topics.some((one) => one.name === name) ? name : "");
  let state = { ...initial, topic: validTopic(initial.topic) };
  let current = null; // the question on the page
  let closed = false;
  let going = false;
  let shown = "";

  const topic = kit.choiceField({
    label: t("practice.topic"),
    value: state.topic,
    options: [["", t("practice.all-topics")], ...course.overview.cards.topics.map((one) => [one.name, course.translate(one.title)])],
    onchange: (name) => kit.go({ topic: name, card: "" }, { push: true }),
  });
  const counts = h("dl", { class: "counts" });
  const place = h("div", { class: "question-place" });
  const note = h("p", { class: "remark", role: "status" });
  put(root, h("div", { class: "card card-controls" }, topic.element, counts), place, note, kit.edition ? h("p", { class: "remark" }, t("static.cards"), " ", h("code", {}, "regard learn cards")) : h("p", { class: "remark" }, t("practice.cards-how")));
  counts.hidden = kit.edition;

  function drawCounts(numbers) {
    const rows = [["due", numbers.due], ["new", numbers.new], ["at-ease", `${numbers.at_ease} / ${numbers.cards}`]];
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
      const answer = await load();
      if (closed) return;
      drawCounts(answer.counts);
      if (!answer.card) {
        current = null;
        shown = "";
        const when = answer.next_due ? wait((new Date(answer.next_due) - Date.now()) / 1000, t) : "";
        put(place, h("div", { class: "card nothing" }, h("h2", { tabindex: -1 }, t("practice.none-due")), h("p", {}, when ? t("practice.next-card", { when }) : "")));
        place.querySelector("h2").focus();
        return;
      }
      shown = answer.card.id;
      current = question(answer.card, kit, course, { graded: (grade) => graded(answer.card, grade), next: kit.edition ? following : null });
      put(place, current.element);
      kit.go({ card: answer.card.id }, { quiet: true });
      state = { ...state, card: answer.card.id };
      if (focus) current.focus();
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  /** Show the next card in the order of the topic: the static edition has no learner whose memory it could follow. */
  async function following() {
    const { order } = await kit.api.get(`/api/practice/cards?topic=${encodeURIComponent(state.topic)}`);
    kit.go({ card: order[(order.indexOf(shown) + 1) % order.length] }, { push: true });
    current?.focus();
  }

  async function graded(card, grade) {
    if (going) return;
    going = true;
    try {
      const done = await kit.api.post("/api/practice/grade", { card: card.id, grade }, { remember: false });
      const words = course.translate(card.question);
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

  const key = (event) => current?.key(event);
  document.addEventListener("keydown", key);

  async function update(changed) {
    const other = changed.topic !== state.topic || (changed.card || shown) !== shown;
    state = { ...changed, topic: validTopic(changed.topic) };
    topic.set(state.topic);
    if (other || !shown) await next();
  }

  await next();
  return {
    update,
    focus: () => current?.focus(),
    unmount() {
      closed = true;
      document.removeEventListener("keydown", key);
    },
  };
}

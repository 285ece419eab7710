// A mock interview: ten questions across the topics, two minutes each, graded by the learner and summarised by topic.

import { question } from "./ask.js";

export async function show(root, initial, kit, course) {
  const { h, t, put } = kit;
  let state = initial;
  let current = null;
  let clock = null;
  let closed = false;
  let round = 0; // incremented whenever an interview starts or is left

  const clear = () => {
    clearInterval(clock);
    current = null;
    round++;
  };

  function start() {
    clear();
    const seed = state.seed >= 0 ? state.seed : Math.floor(Date.now() / 86_400_000);
    const field = kit.numberField({ label: t("practice.interview-seed"), value: seed, min: 0, max: 999_999_999, onchange: (x) => kit.go({ seed: x }, { quiet: true }), hint: t("practice.interview-seed-hint") });
    put(
      root,
      h(
        "section",
        { class: "card interview-start" },
        h("h2", {}, t("practice.interview-title")),
        h("p", {}, t("practice.interview-said")),
        field.element,
        h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", dataset: { do: "begin" }, onclick: () => begin(field.value()) }, t("practice.begin"))),
      ),
    );
  }

  async function begin(seed) {
    clear();
    const session = round;
    try {
      const interview = await kit.api.get(`/api/practice/interview?seed=${seed}`);
      if (closed || session !== round) return;
      const answers = [];
      for (const [i, card] of interview.cards.entries()) {
        const answer = await ask(card, i, interview, session);
        if (closed || session !== round) return;
        answers.push(answer);
        await kit.api.post("/api/practice/grade", { card: card.id, grade: answer.grade }, { remember: false });
      }
      const rows = await kit.api.post("/api/practice/summary", { answers, limit: interview.seconds });
      await course.refresh();
      if (!closed && session === round) end(rows, answers, interview.seconds, seed);
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  /** Ask one question; return a promise of its result. */
  function ask(card, i, { cards, seconds }, session) {
    return new Promise((done) => {
      const began = performance.now();
      let took = null;
      const left = h("span", { class: "time", role: "timer", "aria-label": t("practice.time-left") });
      const bar = h("span", { class: "time-fill" });
      const over = h("p", { class: "remark", role: "status" });
      const tick = () => {
        const used = took ?? (performance.now() - began) / 1000;
        const rest = Math.round(seconds - used);
        const late = used > seconds;
        left.textContent = `${rest < 0 ? "−" : ""}${Math.floor(Math.abs(rest) / 60)}:${String(Math.abs(rest) % 60).padStart(2, "0")}`;
        left.classList.toggle("late", late);
        bar.style.transform = `scaleX(${Math.max(0, 1 - used / seconds)})`;
        if (late && took === null && !over.textContent) over.textContent = t("practice.over-time");
      };
      clearInterval(clock);
      clock = setInterval(tick, 250);
      tick();
      current = question(card, kit, course, {
        intervals: false,
        answered() {
          took = (performance.now() - began) / 1000;
          clearInterval(clock);
          tick();
        },
        graded(grade) {
          if (session !== round) return;
          current = null;
          clearInterval(clock);
          done({ card: card.id, grade, seconds: took ?? 0 });
        },
      });
      put(
        root,
        h(
          "div",
          { class: "card interview-head" },
          h("p", { class: "eyebrow" }, t("practice.question-of", { i: i + 1, n: cards.length })),
          h("ol", { class: "dots", "aria-hidden": "true" }, cards.map((_, j) => h("li", { class: j < i ? "done" : j === i ? "now" : "" }))),
          left,
          h("button", { type: "button", class: "quiet small", onclick: start }, t("practice.leave")),
          h("span", { class: "time-bar", "aria-hidden": "true" }, bar),
        ),
        over,
        current.element,
      );
      current.focus();
    });
  }

  function end(rows, answers, limit, seed) {
    clear();
    const good = answers.filter((one) => one.grade === "good" || one.grade === "easy").length;
    const mean = answers.reduce((sum, one) => sum + one.seconds, 0) / answers.length;
    put(
      root,
      h(
        "section",
        { class: "card interview-end" },
        h("h2", { tabindex: -1 }, t("practice.interview-score", { good, all: answers.length })),
        h("p", {}, t("practice.interview-mean", { seconds: kit.number(mean, 0), limit: kit.number(limit, 0) })),
        h(
          "div",
          { class: "table-scroll" },
          h(
            "table",
            { class: "plain" },
            h("caption", {}, t("practice.by-topic")),
            h("thead", {}, h("tr", {}, ["topic", "asked", "good", "time", "late"].map((key) => h("th", { scope: "col" }, t(`practice.column.${key}`))))),
            h(
              "tbody",
              {},
              rows.map((row) =>
                h(
                  "tr",
                  { class: row.good < row.asked ? "weak" : "" },
                  h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => course.open({ tab: "cards", topic: row.topic }) }, course.translate(row.title))),
                  h("td", {}, String(row.asked)),
                  h("td", {}, String(row.good)),
                  h("td", {}, t("practice.seconds", { n: kit.number(row.seconds, 0) })),
                  h("td", {}, String(row.late)),
                ),
              ),
            ),
          ),
        ),
        h(
          "div",
          { class: "buttons" },
          h("button", { type: "button", class: "primary", onclick: () => begin(Math.floor(Math.random() * 1e6)) }, t("practice.ten-others")),
          h("button", { type: "button", onclick: () => begin(seed) }, t("practice.same-ten")),
        ),
      ),
    );
    root.querySelector("h2").focus();
  }

  const key = (event) => current?.key(event);
  document.addEventListener("keydown", key);
  start();
  return {
    update(next) {
      const other = next.seed !== state.seed;
      state = next;
      if (other && !current) start();
    },
    unmount() {
      closed = true;
      clear();
      document.removeEventListener("keydown", key);
    },
  };
}

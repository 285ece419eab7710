// A mock interview: ten questions across the topics, two minutes each, graded by the learner, summed up by topic.

import { question } from "./ask.js";

export async function show(root, given, kit, course) {
  const { h, t, put } = kit;
  let state = given;
  let asked = null;
  let clock = null;
  let closed = false;
  let round = 0; // a new one whenever an interview is begun or left

  const clear = () => {
    clearInterval(clock);
    asked = null;
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
    const mine = round;
    try {
      const found = await kit.api.get(`/api/practice/interview?seed=${seed}`);
      if (closed || mine !== round) return;
      const answers = [];
      for (const [i, card] of found.cards.entries()) {
        const given = await ask(card, i, found, mine);
        if (closed || mine !== round) return;
        answers.push(given);
        await kit.api.post("/api/practice/grade", { card: card.id, grade: given.grade }, { remember: false });
      }
      const rows = await kit.api.post("/api/practice/summary", { answers, limit: found.seconds });
      await course.refresh();
      if (!closed && mine === round) end(rows, answers, found.seconds, seed);
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  /** One question; a promise of how it went. */
  function ask(card, i, { cards, seconds }, mine) {
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
      asked = question(card, kit, course, {
        intervals: false,
        answered() {
          took = (performance.now() - began) / 1000;
          clearInterval(clock);
          tick();
        },
        graded(grade) {
          if (mine !== round) return;
          asked = null;
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
        asked.element,
      );
      asked.focus();
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
                  h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => course.open({ tab: "cards", topic: row.topic }) }, course.said(row.title))),
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

  const key = (event) => asked?.key(event);
  document.addEventListener("keydown", key);
  start();
  return {
    update(next) {
      const other = next.seed !== state.seed;
      state = next;
      if (other && !asked) start();
    },
    unmount() {
      closed = true;
      clear();
      document.removeEventListener("keydown", key);
    },
  };
}

// Step 2 of Start: reading a page. A question is compared with every line; the counts of common words become weights.

const LINES = [0, 1, 2, 3, 4];
const QUESTIONS = [0, 1, 2];
const SHARPNESS = 1.5; // weight of one common word in the exponent

const CHINESE = /[\u3400-\u9fff]/;
const COMMON = new Set("the a an is are was does do did what when where who which how it its on in at of to and for i my me you has have since until by next say".split(" "));
const FREQUENT = new Set("的了吗呢是在有什么时候哪里谁怎样多少个几到从和我你他它们这那一不请问");

/** The words of a text that can tell lines apart: stems of English words, single Chinese characters. */
export function words(text) {
  const english = text.toLowerCase().match(/[a-z]+/g) ?? [];
  const stems = english.filter((word) => !COMMON.has(word)).map((word) => word.replace(/(ing|ed|es|s)$/, "").slice(0, 4));
  return new Set([...stems, ...[...text].filter((letter) => CHINESE.test(letter) && !FREQUENT.has(letter))]);
}

export function softmax(scores) {
  const most = Math.max(...scores);
  const grown = scores.map((x) => Math.exp(x - most));
  const sum = grown.reduce((a, b) => a + b);
  return grown.map((x) => x / sum);
}

export function show(root, initial, kit) {
  const { h, t, number, put } = kit;
  let state = initial;
  const prepared = () => QUESTIONS.map((i) => t(`start.reading.question.${i}`));
  const field = kit.textField({ label: t("start.reading.own"), value: state.question, placeholder: prepared()[0], onchange: kit.debounced((question) => kit.go({ question }), 120) });
  const chips = h("div", { class: "start-chips", role: "group", "aria-label": t("start.reading.examples") });
  const page = h("ol", { class: "page-lines" });
  const answer = h("p", { class: "page-answer", "aria-live": "polite" });
  put(
    root,
    h("p", { class: "start-lead" }, t("start.reading.lead")),
    h(
      "div",
      { class: "start-two" },
      h("div", { class: "card page" }, h("p", { class: "page-title" }, t("start.reading.page")), page),
      h(
        "div",
        { class: "start-features" },
        h("section", { class: "card" }, field.element, chips, answer),
        h(
          "section",
          { class: "card" },
          h("dl", { class: "roles" }, ["query", "key", "value"].flatMap((role) => [h("dt", { class: role }, t(`start.role.${role}`)), h("dd", {}, t(`start.reading.${role}`))])),
          h("p", { class: "remark" }, t("start.reading.how")),
        ),
      ),
    ),
    h("p", { class: "start-moral" }, t("start.reading.moral")),
  );

  function draw() {
    const examples = prepared();
    const asked = state.question.trim() || examples[QUESTIONS.includes(state.asked) ? state.asked : 0];
    const query = words(asked);
    const lines = LINES.map((i) => ({ heading: t(`start.reading.heading.${i}`), body: t(`start.reading.line.${i}`) }));
    const common = lines.map(({ heading, body }) => [...words(`${heading} ${body}`)].filter((word) => query.has(word)).length);
    const weights = softmax(common.map((count) => SHARPNESS * count));
    const best = weights.indexOf(Math.max(...weights));
    put(chips, examples.map((text, i) => h("button", { type: "button", class: "small", "aria-pressed": String(!state.question.trim() && i === state.asked), onclick: () => kit.go({ question: "", asked: i }) }, text)));
    put(
      page,
      lines.map(({ heading, body }, i) => {
        const colour = kit.colour.token("--accent");
        return h(
          "li",
          { class: i === best && common[best] ? "best" : "", dataset: { weight: String(weights[i]) }, style: { "--mark": `color-mix(in srgb, ${colour} ${Math.round(38 * weights[i])}%, transparent)` } },
          h("p", {}, h("strong", {}, heading), " ", body),
          h("span", { class: "page-weight" }, h("span", { class: "page-count" }, t("start.reading.common", { count: common[i] })), h("strong", {}, number(weights[i], 2))),
        );
      }),
    );
    answer.textContent = common[best] ? t("start.reading.answer", { weight: number(weights[best], 2), line: lines[best].body }) : t("start.reading.none");
  }

  draw();
  return {
    update(next) {
      state = next;
      if (document.activeElement !== field.input) field.set(state.question);
      draw();
    },
  };
}

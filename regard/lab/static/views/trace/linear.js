// nn.Linear on a batch (B, S, D): a loop over tokens, a reshape to (B·S, D) and one call give the same numbers.
// The batch is the sentence and the sentence reversed; torch computes the three ways when the panel is opened.

const WAYS = {
  loop: "torch.stack([torch.stack([linear(x[b, s]) for s in range(S)]) for b in range(B)])",
  reshape: "linear(x.reshape(B * S, D)).reshape(B, S, D)",
  call: "linear(x)",
};
const SHOWN = 6; // numbers of a token that are shown

export function linear(kit, question) {
  const { h, t, number, put } = kit;
  let data = null;
  let asked = "";
  let token = [0, 0];

  const place = h("div", { class: "linear-ways" });
  const element = h("details", { class: "linear", ontoggle: () => load() }, h("summary", {}, t("trace.linear")), h("p", { class: "explanation" }, t("trace.linear-said")), place);

  async function load() {
    if (!element.open || element.hidden) return;
    const body = question();
    if (JSON.stringify(body) === asked && data) return;
    asked = JSON.stringify(body);
    try {
      const answer = await kit.api.post("/api/trace/linear", body);
      if (JSON.stringify(body) !== asked) return;
      data = answer;
      draw();
    } catch (error) {
      asked = "";
      kit.failed(error);
    }
  }

  function draw() {
    const [B, S, D] = data.shape;
    token = [Math.min(token[0], B - 1), Math.min(token[1], S - 1)];
    const [b, s] = token;
    const choice = kit.choiceField({
      label: t("trace.linear-token"),
      value: token.join(" "),
      options: data.tokens.flatMap((words, i) => words.map((word, j) => [`${i} ${j}`, `x[${i}, ${j}] ${word}`])),
      onchange: (value) => {
        token = value.split(" ").map(Number);
        draw();
        place.querySelector("select").focus();
      },
    });
    const equal = (way) => (data.unequal[way] === 0 ? t("trace.linear-equal") : t("trace.linear-differs", { most: data.difference[way].toExponential(1), count: data.unequal[way], all: B * S * D }));
    put(
      place,
      h("p", { class: "linear-shape" }, `x: (B, S, D) = (${B}, ${S}, ${D})`),
      choice.element,
      h(
        "div",
        { class: "table-scroll", tabindex: 0, role: "region", "aria-label": t("trace.linear") },
        h(
          "table",
          { class: "plain" },
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("trace.linear-way")), h("th", { scope: "col" }, t("trace.linear-numbers", { shown: Math.min(SHOWN, D), all: D })), h("th", { scope: "col" }, t("trace.linear-difference")))),
          h(
            "tbody",
            {},
            Object.entries(WAYS).map(([way, code]) =>
              h(
                "tr",
                { dataset: { way, difference: String(data.difference[way]) } },
                h("th", { scope: "row" }, t(`trace.linear.${way}`), h("br"), h("code", {}, code)),
                h("td", { class: "linear-numbers" }, data.ways[way][b][s].slice(0, SHOWN).map((x) => h("span", { dataset: { value: String(x) } }, number(x, 6)))),
                h("td", {}, way === "call" ? "–" : equal(way)),
              ),
            ),
          ),
        ),
      ),
    );
  }

  return {
    element,
    /** Show the panel at the step it belongs to. */
    show(visible) {
      element.hidden = !visible;
      load();
    },
  };
}

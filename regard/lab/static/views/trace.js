export const defaults = { text: "The cat sat on the mat", heads: 2 };

export async function mount(root, state, kit) {
  const { h, t } = kit;
  const place = h("div", { class: "card" });
  async function draw(state) {
    const trace = await kit.api.post("/api/trace", { text: state.text, heads: state.heads });
    const weights = trace.steps.find((step) => step.name === "weights").parts[0].values[0];
    kit.put(place, kit.matrix({ name: "W", values: weights, rows: trace.tokens.queries, columns: trace.tokens.keys, kind: "weights" }).element);
  }
  const text = kit.textField({ label: t("trace.sentence"), value: state.text, onchange: (text) => kit.go({ text }) });
  root.append(h("div", { class: "card" }, text.element), place);
  await draw(state);
  return { update: draw };
}

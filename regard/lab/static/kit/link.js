// The permanent link #/VIEW?name=value&… contains the state of a view where it differs from the view's defaults.

const read = (text, like) => {
  if (typeof like === "string") return text;
  try {
    const value = JSON.parse(text);
    return typeof value === typeof like && Array.isArray(value) === Array.isArray(like) && value !== null ? value : like;
  } catch {
    return like;
  }
};

/** Return the view and the parameters of an address. */
export function parseLink(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path, parameters: new URLSearchParams(query) };
}

/** Return the state of a view: its defaults, replaced by the link's values where these have the same type. */
export function stateOf(parameters, defaults) {
  const state = structuredClone(defaults);
  for (const [name, text] of parameters) if (name in defaults) state[name] = read(text, defaults[name]);
  return state;
}

/** Return the link of a view in a state. */
export function linkTo(view, state = {}, defaults = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (!(name in defaults) || JSON.stringify(value) === JSON.stringify(defaults[name])) continue;
    parameters.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  const query = parameters.toString();
  return `#/${view}${query ? "?" + query : ""}`;
}

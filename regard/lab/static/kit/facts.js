// What the server put into the page: token, texts, views, colours; and, in a saved page, what was saved.

const read = (id) => {
  const element = document.getElementById(id);
  return element === null ? null : JSON.parse(element.textContent);
};

export const facts = read("facts");
export const saved = read("saved");

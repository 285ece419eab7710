// Data that the server embeds in the page: token, texts, views and colours. A saved page also contains its state and answers;
// the static edition contains the names of its prepared answers (regard/lab/static_edition.py).

const read = (id) => {
  const element = document.getElementById(id);
  return element === null ? null : JSON.parse(element.textContent);
};

export const facts = read("facts");
export const saved = read("saved");
export const edition = read("edition");

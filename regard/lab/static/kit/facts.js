// Data that the server embeds in the page: token, texts, views and colours; a saved page also contains its state and answers.

const read = (id) => {
  const element = document.getElementById(id);
  return element === null ? null : JSON.parse(element.textContent);
};

export const facts = read("facts");
export const saved = read("saved");

// Elements and requests. Text goes in as text only, never as markup.

export const find = (selector) => document.querySelector(selector);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function showTrouble(words) {
  const place = find("#trouble");
  place.textContent = words || "";
  place.hidden = !words;
}

async function answered(promise) {
  let response;
  try {
    response = await promise;
  } catch {
    throw new Error("the server does not answer: is `raretag review` still running? Answers that were given are kept.");
  }
  let content = {};
  try { content = await response.json(); } catch { /* a refusal is plain text */ }
  if (!response.ok) throw new Error(content.error || `the server refused (${response.status})`);
  return content;
}

export const ask = (path) => answered(fetch(path));
export const tell = (path, content) =>
  answered(fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content) }));

// One action after the other: keys that are pressed while an answer is being written wait for it.
let last = Promise.resolve();
export function inTurn(action) {
  last = last.then(action).then(() => true, (error) => { showTrouble(error.message); return false; });
  return last;
}

export const two = (number) => Number(number).toFixed(2);
export const picture = (row, side, words) => make("img", { src: `pictures/${side}/${row}`, alt: words, decoding: "async" });

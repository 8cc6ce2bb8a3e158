// Making elements. Texts become text nodes; nothing here or elsewhere parses markup.

const byId = (id) => document.getElementById(id);

/** An element with attributes (functions are listeners, false and null leave one out) and children. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const unseen = (text) => make("span", { class: "unseen" }, text);
const english = new Intl.NumberFormat("en");
const grouped = (number) => english.format(number);
const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Says it to everybody: on the screen for a while, and to screen readers. */
let saying;
function say(text) {
  const said = byId("said");
  said.textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => { said.textContent = ""; }, 6000);
}

/** Asks before something large; resolves to whether the answer is yes. */
function ask(title, text, yes, list = []) {
  const dialog = byId("question");
  byId("question-title").textContent = title;
  byId("question-text").textContent = text;
  byId("question-list").replaceChildren(...list.map((each) => make("li", {}, each)));
  byId("question-yes").textContent = yes ?? "";
  byId("question-yes").hidden = yes === null;
  byId("question-no").textContent = yes === null ? "Close" : "Cancel";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** What the browser keeps for this page; a file that is opened from a disk may have no storage. */
const storage = {
  get(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(name, value); } catch { /* then it lasts as long as the page */ }
  },
};

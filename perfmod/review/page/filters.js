// Which items are shown; the page says by what (`FACETS`). The choice stands in the address, behind the #.

for (const facet of FACETS) {
  const there = new Set(items.flatMap(facet.of));
  facet.values = facet.values ? facet.values.filter((value) => facet.single || there.has(value)) : [...there].sort();
  facet.chosen = new Set();
  facet.label ??= (value) => value;
}
const MOST_VALUES = 30;
let filtersChanged;
let searched = [];
let shownItems = items;

/** Puts the controls on the page; `onChange` is called after each change of the filters. */
function buildFilters(onChange) {
  const holder = byId("facets");
  filtersChanged = onChange;
  for (const facet of FACETS) {
    if (!facet.single && facet.values.length < 2) continue;
    facet.list = make("div", { class: "values" });
    facet.more = make("button", { type: "button", class: "link", hidden: true, click: () => {
      facet.isWhole = true;
      filterItems();
    } });
    facet.rows = new Map((facet.single ? ["", ...facet.values] : facet.values).map((value) => [value, null]));
    holder.append(make("fieldset", { class: "facet" }, make("legend", {}, facet.title), facet.list, facet.more));
  }
  byId("search").addEventListener("input", () => {
    setSearch(byId("search").value);
    onChange();
  });
  byId("clear").addEventListener("click", () => {
    for (const facet of FACETS) facet.chosen.clear();
    setSearch(byId("search").value = "");
    onChange();
    byId("search").focus();
  });
  addEventListener("hashchange", () => {
    readAddress();
    onChange();
  });
  readAddress();
}

function setSearch(text) {
  searched = text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Finds out what is shown, and how many each value would show. */
function filterItems() {
  const active = FACETS.filter((facet) => facet.chosen.size);
  const counts = FACETS.map(() => new Map());
  const isChosen = (facet, value) => (Array.isArray(value) ? value.some((each) => facet.chosen.has(each)) : facet.chosen.has(value));
  const fails = (item) => (facet) => !isChosen(facet, facet.of(item));
  const add = (index, value) => counts[index].set(value, (counts[index].get(value) ?? 0) + 1);
  const count = (index, item) => {
    const value = FACETS[index].of(item);
    if (Array.isArray(value)) for (const each of value) add(index, each);
    else add(index, value);
  };
  shownItems = [];
  for (const item of items) {
    if (searched.length && !searched.every((word) => wordsOf(item).includes(word))) continue;
    const failed = active.filter(fails(item));
    // A value is counted as if its own facet filtered nothing.
    if (failed.length === 1) count(FACETS.indexOf(failed[0]), item);
    if (failed.length) continue;
    shownItems.push(item);
    for (let index = 0; index < FACETS.length; index += 1) count(index, item);
  }
  FACETS.forEach((facet, index) => showCounts(facet, counts[index]));
  const filters = active.length + (searched.length ? 1 : 0);
  byId("clear").hidden = !filters;
  byId("filtered").textContent = filters ? `(${filters} on)` : "";
}

/** The values of a facet with their counts; of very many those that something is left of, and not all at once. */
function showCounts(facet, counts) {
  if (!facet.list) return;
  let all = 0;
  for (const number of counts.values()) all += number;
  const numberOf = (value) => (value ? (counts.get(value) ?? 0) : all);
  let values = [...facet.rows.keys()];
  if (values.length > MOST_VALUES) values = values.filter((value) => numberOf(value) || facet.chosen.has(value));
  const rest = facet.isWhole ? 0 : Math.max(values.length - MOST_VALUES, 0);
  if (rest) values = values.filter((value, index) => index < MOST_VALUES || facet.chosen.has(value));
  facet.more.hidden = !rest;
  facet.more.textContent = `${grouped(rest)} more`;
  if (values.length !== facet.shown?.length || values.some((value, index) => value !== facet.shown[index])) {
    facet.list.replaceChildren(...values.map((value) => row(facet, value).label));
    facet.shown = values;
  }
  for (const value of values) {
    const { count, label, input } = row(facet, value);
    const number = numberOf(value);
    if (count.textContent !== String(number)) count.textContent = number;
    label.classList.toggle("none", !number);
    input.checked = value ? facet.chosen.has(value) : !facet.chosen.size;
  }
}

/** The control of one value; the empty one of a single choice stands for all. */
function row(facet, value) {
  if (facet.rows.get(value)) return facet.rows.get(value);
  const input = make("input", { type: facet.single ? "radio" : "checkbox", name: facet.name, value, change: () => {
    if (facet.single) facet.chosen = new Set(value ? [value] : []);
    else if (input.checked) facet.chosen.add(value);
    else facet.chosen.delete(value);
    filtersChanged();
  } });
  const count = make("span", { class: "count" });
  const label = make("label", {}, input, make("span", {}, value ? facet.label(value) : "all"), count);
  facet.rows.set(value, { input, count, label });
  return facet.rows.get(value);
}

function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const facet of FACETS) {
    facet.chosen = new Set(wanted.getAll(facet.name).filter((value) => facet.values.includes(value)));
  }
  byId("search").value = wanted.get("q") ?? "";
  setSearch(byId("search").value);
}

/** Soon, and once for several changes: browsers refuse to write an address too often. */
let writing;
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const wanted = new URLSearchParams();
    for (const facet of FACETS) for (const value of facet.chosen) wanted.append(facet.name, value);
    if (searched.length) wanted.set("q", searched.join(" "));
    history.replaceState(null, "", `#${wanted}`);
  }, 150);
}

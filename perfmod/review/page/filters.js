// Which findings are shown. The choice stands in the address, behind the #.

const FACETS = [
  { name: "verdict", title: "Verdict", of: (item) => item.verdict, values: VERDICTS, single: true },
  { name: "numerics", title: "What may differ", of: (item) => item.numerics, values: Object.keys(data.classes) },
  { name: "state", title: "Outcome", of: (item) => item.state, values: Object.keys(data.states),
    label: (value) => data.states[value] },
  { name: "rule", title: "Rule", of: (item) => item.rule, label: (value) => `${value} ${data.rules[value].name}` },
  { name: "file", title: "File", of: (item) => item.path, label: (value) => shownPaths.get(value) },
];
const shownPaths = new Map(items.map((item) => [item.path, item.shownPath]));
for (const facet of FACETS) {
  const there = new Set(items.map(facet.of));
  facet.values = facet.values ? facet.values.filter((value) => facet.single || there.has(value)) : [...there].sort();
  facet.chosen = new Set();
  facet.label ??= (value) => value;
}
let searched = [];
let shownItems = items;

/** Puts the controls on the page; `onChange` is called after each change of the filters. */
function buildFilters(onChange) {
  const holder = byId("facets");
  for (const facet of FACETS) {
    if (!facet.single && facet.values.length < 2) continue;
    const list = make("div", { class: "values" });
    facet.inputs = new Map();
    facet.counts = new Map();
    for (const value of facet.single ? ["", ...facet.values] : facet.values) {
      const input = make("input", {
        type: facet.single ? "radio" : "checkbox", name: facet.name, value,
        change: () => {
          if (facet.single) facet.chosen = new Set(value ? [value] : []);
          else if (input.checked) facet.chosen.add(value);
          else facet.chosen.delete(value);
          onChange();
        },
      });
      const count = make("span", { class: "count" });
      facet.inputs.set(value, input);
      facet.counts.set(value, { count, label: make("label", {}, input, make("span", {}, value ? facet.label(value) : "all"), count) });
      list.append(facet.counts.get(value).label);
    }
    holder.append(make("fieldset", { class: "facet" }, make("legend", {}, facet.title), list));
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
  shownItems = [];
  for (const item of items) {
    if (!searched.every((word) => wordsOf(item).includes(word))) continue;
    const failed = active.filter((facet) => !facet.chosen.has(facet.of(item)));
    if (!failed.length) shownItems.push(item);
    // A value is counted as if its own facet filtered nothing.
    FACETS.forEach((facet, index) => {
      if (failed.length > 1 || (failed.length === 1 && failed[0] !== facet)) return;
      const value = facet.of(item);
      counts[index].set(value, (counts[index].get(value) ?? 0) + 1);
    });
  }
  FACETS.forEach((facet, index) => showCounts(facet, counts[index]));
  const filters = active.length + (searched.length ? 1 : 0);
  byId("clear").hidden = !filters;
  byId("filtered").textContent = filters ? `(${filters} on)` : "";
}

function showCounts(facet, counts) {
  if (!facet.inputs) return;
  let all = 0;
  for (const number of counts.values()) all += number;
  for (const [value, { count, label }] of facet.counts) {
    const number = value ? (counts.get(value) ?? 0) : all;
    if (count.textContent !== String(number)) count.textContent = number;
    label.classList.toggle("none", !number);
    facet.inputs.get(value).checked = value ? facet.chosen.has(value) : !facet.chosen.size;
  }
}

function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const facet of FACETS) {
    facet.chosen = new Set(wanted.getAll(facet.name).filter((value) => facet.values.includes(value)));
  }
  byId("search").value = wanted.get("q") ?? "";
  setSearch(byId("search").value);
}

function writeAddress() {
  const wanted = new URLSearchParams();
  for (const facet of FACETS) for (const value of facet.chosen) wanted.append(facet.name, value);
  if (searched.length) wanted.set("q", searched.join(" "));
  history.replaceState(null, "", `#${wanted}`);
}

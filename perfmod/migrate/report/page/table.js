// The table of projects: sorted, filtered, and built piece by piece.

const CHUNK = 30;
const KINDS = { proven: "good", changed: "good", refuted: "bad", failed: "bad", "needs a person": "warn", inconclusive: "warn" };
const kindOf = (word) => KINDS[word] ?? "plain";
const names = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => names.compare(a.name, b.name);
const reviewed = (item) => (item.of ? item.decided / item.of : -1);

/** What each column holds; those of numbers begin with the largest. `better` sorts the first one to the top. */
const COLUMNS = [
  { id: "name", title: "Project", compare: byName, cell: nameCell },
  { id: "outcome", title: "Outcome", compare: (a, b) => data.outcomes.indexOf(a.outcome) - data.outcomes.indexOf(b.outcome), cell: outcomeCell },
  { id: "rewrites", title: "Rewrites", compare: (a, b) => b.rewrites - a.rewrites, cell: rewritesCell, isFalling: true },
  { id: "size", title: "Patch", compare: (a, b) => b.added + b.removed - a.added - a.removed, cell: sizeCell, isFalling: true },
  { id: "reviewed", title: "Reviewed", compare: (a, b) => reviewed(b) - reviewed(a), cell: reviewedCell, isFalling: true },
  { id: "ratio", title: "Verified", compare: (a, b) => (b.ratio?.[0] ?? -1) - (a.ratio?.[0] ?? -1), cell: verifiedCell, isFalling: true },
];
let sorting = { column: COLUMNS[0], isTurned: false };
let sorted = items;
let order = [];
let attached = 0;

function buildTable() {
  for (const column of COLUMNS) {
    column.head = make("th", { role: "columnheader", scope: "col" },
      make("button", { type: "button", class: "head", click: () => sortBy(column, sorting.column === column && !sorting.isTurned) }, column.title,
        make("span", { class: "arrow", "aria-hidden": "true" })));
    byId("heads").append(column.head);
    byId("sort").append(make("option", { value: column.id }, column.title));
  }
  byId("sort").addEventListener("change", () => sortBy(COLUMNS.find((column) => column.id === byId("sort").value), false));
  byId("rest").addEventListener("click", () => {
    const first = attached;
    attach(attached + CHUNK);
    byId("rows").children[first]?.querySelector("th").focus();
  });
  atTheEnd.observe(byId("rest"));
  sortBy(COLUMNS[0], false);
}

function sortBy(column, isTurned) {
  sorting = { column, isTurned };
  const sign = isTurned ? -1 : 1;
  sorted = [...items].sort((a, b) => sign * column.compare(a, b) || a.index - b.index);
  for (const each of COLUMNS) {
    if (each === column) each.head.setAttribute("aria-sort", Boolean(column.isFalling) !== isTurned ? "descending" : "ascending");
    else each.head.removeAttribute("aria-sort");
  }
  byId("sort").value = column.id;
  showRows();
}

/** Shows what the filters leave, from its beginning. */
function showRows() {
  const isShown = new Set(shownItems);
  order = sorted.filter((item) => isShown.has(item));
  attached = 0;
  byId("rows").replaceChildren();
  attach(CHUNK);
  byId("shown").textContent = order.length === items.length ? counted(items.length, "project") : `${grouped(order.length)} of ${counted(items.length, "project")} shown`;
  byId("empty").hidden = order.length > 0;
  byId("empty").textContent = items.length ? "No project passes the filters." : "There are no projects.";
}

/** Builds the rows up to that one. */
function attach(end) {
  byId("rows").append(...order.slice(attached, end).map(rowOf));
  attached = Math.max(attached, Math.min(end, order.length));
  const rest = order.length - attached;
  byId("rest").hidden = !rest;
  byId("rest").textContent = `Show ${grouped(Math.min(rest, CHUNK))} more of ${grouped(rest)}`;
}

const atTheEnd = new IntersectionObserver(([entry]) => {
  if (!entry.isIntersecting) return;
  attach(attached + CHUNK);
  // What was added may be short: ask again.
  atTheEnd.unobserve(entry.target);
  atTheEnd.observe(entry.target);
}, { rootMargin: "1000px 0px" });

/** Paper shows everything that is shown on the screen. */
const buildForPrint = () => attach(order.length);

function rowOf(item) {
  const cells = COLUMNS.map(({ title, cell }, index) => {
    const content = cell(item);
    const attributes = index ? { role: "cell" } : { role: "rowheader", scope: "row", tabindex: "-1" };
    return make(index ? "td" : "th", { ...attributes, "data-title": title, class: content.length ? null : "blank" }, ...content);
  });
  return make("tr", { role: "row", id: `p${item.index}` }, ...cells);
}

const small = (...content) => make("div", { class: "small" }, ...content);

/** Links with what they are about, for those who hear them one by one. */
const links = (item) => item.links.map(([name, address]) => make("a", { href: address }, name, unseen(` of ${item.name}`)));

function nameCell(item) {
  const from = item.location && item.location !== item.name ? small(item.location, item.commit ? ` at ${item.commit.slice(0, 10)}` : "") : null;
  return [make("span", { class: "project" }, item.name), from, item.links.length ? make("div", { class: "links" }, ...links(item)) : null];
}

function outcomeCell(item) {
  const causes = item.causes.length ? small(item.causes.join(", ")) : null;
  return [make("span", { class: `tag ${kindOf(item.outcome)}` }, item.outcome), causes, item.reason ? small(item.reason) : null, ...item.notes.map((note) => small(note))];
}

function rewritesCell(item) {
  if (!item.rewrites) return [];
  return [grouped(item.rewrites), small(item.ruleCodes.map((code) => `${code}\u00a0\u00d7\u00a0${item.rules[code]}`).join(", "))];
}

function sizeCell(item) {
  if (!item.patches) return [];
  const held = item.waiting.length ? small(`held back: ${item.waiting.join(", ")}`) : null;
  const made = item.branches.length ? small(`branch${item.branches.length > 1 ? "es" : ""} `, make("code", {}, item.branches.join(", "))) : null;
  return [make("span", { class: "added" }, `+${grouped(item.added)}`), " ", make("span", { class: "removed" }, `\u2212${grouped(item.removed)}`),
    small(item.patches === 1 ? "1 patch" : `${grouped(item.patches)} patches`), made, held];
}

function reviewedCell(item) {
  return item.of ? [`${grouped(item.decided)} of ${grouped(item.of)}`] : [];
}

function verifiedCell(item) {
  if (!item.scripts.length) return [];
  const [worst] = data.verdicts.filter((verdict) => item.verdicts.includes(verdict));
  return [make("span", { class: `verdict ${kindOf(worst)}` }, item.verified), item.ratio ? intervalBar(...item.ratio) : null,
    ...item.scripts.map(({ name, link, verdict }) =>
      small(link ? make("a", { href: link }, name) : name, item.scripts.length > 1 ? `: ${verdict}` : ""))];
}

// Groups, and which cards are built.

view.diff = storage.get("perfmod-review-diff") ?? "unified";
view.group = storage.get("perfmod-review-group") ?? "file";

/** Two sides need room; where there is none, everybody gets one. */
const isSplit = () => view.diff === "split" && !narrow.matches;

function buildView() {
  buildChoice("layouts", "diff", "perfmod-review-diff", [["unified", "Unified"], ["split", "Side by side"]], () => keepingPlace(rebuild));
  buildChoice("groupings", "group", "perfmod-review-group", [["file", "File"], ["rule", "Rule"]], () => keepingPlace(arrange));
  buildThemes();
  foldFilters();
  narrow.addEventListener("change", rebuild);
}

/** All findings, those of a group together; a group stands where its first finding does. */
let arranged = [];
/** What the filters leave of them. */
let order = [];
let shownSet = new Set();
/** How many of those are in the document: the rest follows when one comes near its end. */
let attached = 0;
const STEP = 10;
const sections = new Map();

const isShown = (item) => shownSet.has(item);
const groupOf = (item) => (view.group === "file" ? item.path : item.rule);
const groupTitle = (item) => (view.group === "file" ? item.shownPath : `${item.rule} ${data.rules[item.rule].name}`);

function arrange() {
  const groups = new Map();
  for (const item of items) {
    if (!groups.has(groupOf(item))) groups.set(groupOf(item), []);
    groups.get(groupOf(item)).push(item);
  }
  arranged = [...groups.values()].flat();
  showFiltered();
}

/** Shows what the filters leave, from its beginning. */
function showFiltered() {
  select();
  attached = 0;
  sections.clear();
  byId("groups").replaceChildren();
  attach(STEP);
  showNumbers();
}

function select() {
  shownSet = new Set(shownItems);
  order = arranged.filter(isShown);
}

/** Puts the findings up to that one into the document. */
function attach(end) {
  for (; attached < Math.min(end, order.length); attached += 1) {
    const item = order[attached];
    sectionOf(item).append(item.card ?? shell(item));
  }
  const rest = order.length - attached;
  byId("rest").hidden = !rest;
  byId("rest").textContent = `Show ${grouped(rest)} more`;
}

function sectionOf(item) {
  const name = groupOf(item);
  if (!sections.has(name)) {
    const count = make("span", { class: "count" });
    const title = make("h2", { id: `g${item.index}` }, groupTitle(item), " ", count);
    const section = make("section", { "aria-labelledby": title.id }, title);
    byId("groups").append(section);
    sections.set(name, { section, count });
    showCount(name);
  }
  return sections.get(name).section;
}

/** After decisions: takes away what the filters leave out now; what comes back needs all of it anew. */
function showChanged(changed) {
  const before = shownSet;
  select();
  if (changed.some((item) => isShown(item) && !before.has(item))) {
    const end = attached;
    showFiltered();
    attach(end);
    return;
  }
  for (const item of changed) {
    if (isShown(item) || !item.card?.isConnected) continue;
    attached -= 1;
    item.card.remove();
    if (!sections.get(groupOf(item)).section.querySelector("article")) sections.get(groupOf(item)).section.remove();
  }
  attach(STEP);
  showNumbers();
}

function countGroups() {
  const counts = new Map();
  for (const item of order) {
    const count = counts.get(groupOf(item)) ?? { all: 0, decided: 0 };
    count.all += 1;
    if (item.verdict !== "undecided") count.decided += 1;
    counts.set(groupOf(item), count);
  }
  return counts;
}

let groupCounts = new Map();

function showCount(name) {
  const { all, decided } = groupCounts.get(name) ?? { all: 0, decided: 0 };
  const text = `${counted(all, "finding")}${decided ? `, ${decided} decided` : ""}`;
  const { count } = sections.get(name);
  if (count.textContent !== text) count.textContent = text;
}

/** The progress, and how much of each group is decided. */
function showNumbers() {
  const decided = items.filter((item) => item.verdict !== "undecided").length;
  const accepted = items.filter((item) => item.verdict === "accepted").length;
  byId("decided").textContent = `${grouped(decided)} of ${grouped(items.length)} decided`;
  const bar = byId("bar");
  bar.setAttribute("aria-valuemax", Math.max(items.length, 1));
  bar.setAttribute("aria-valuenow", decided);
  bar.setAttribute("aria-valuetext", `${decided} of ${items.length} decided, ${accepted} accepted`);
  bar.style.setProperty("--accepted", items.length ? accepted / items.length : 0);
  bar.style.setProperty("--rejected", items.length ? (decided - accepted) / items.length : 0);
  groupCounts = countGroups();
  for (const name of sections.keys()) showCount(name);
  const isAll = order.length === items.length;
  byId("shown").textContent = isAll ? counted(items.length, "finding") : `${grouped(order.length)} of ${counted(items.length, "finding")} shown`;
  byId("empty").hidden = order.length > 0;
  byId("empty").textContent = items.length ? "No finding passes the filters." : "There is nothing to review.";
  byId("accept-shown").disabled = !order.some((item) => item.verdict === "undecided");
  byId("undo").disabled = !undoable.length;
}

const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const item = itemOf(target);
    if (isIntersecting) build(item);
    if (isIntersecting) near.add(item);
    else near.delete(item);
  }
  emptyOldest();
}, { rootMargin: "800px 0px" });

const atTheEnd = new IntersectionObserver(([entry]) => {
  if (!entry.isIntersecting) return;
  attach(attached + STEP);
  // What was added may be short: ask again.
  atTheEnd.unobserve(entry.target);
  atTheEnd.observe(entry.target);
}, { rootMargin: "2000px 0px" });

/** Does something that moves cards, and leaves the one that is being read where it was on the screen. */
function keepingPlace(action) {
  const isCurrent = current && isShown(current) && near.has(current);
  const item = isCurrent ? current : order.slice(0, attached).find((each) => each.card.getBoundingClientRect().bottom > 0);
  const before = item?.card.getBoundingClientRect().top;
  action();
  if (!item) return;
  attach(order.indexOf(item) + STEP);
  scrollBy({ top: item.card.getBoundingClientRect().top - before, behavior: "instant" });
}

/** Paper shows everything that is shown on the screen. */
function buildForPrint() {
  attach(order.length);
  for (const item of order) build(item);
}
addEventListener("beforeprint", buildForPrint);
matchMedia("print").addEventListener("change", (event) => { if (event.matches) buildForPrint(); });

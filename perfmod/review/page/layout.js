// What is chosen about the view, groups, and which cards are built.

const narrow = matchMedia("(max-width: 60rem)");
const view = {
  diff: storage.get("perfmod-review-diff") ?? "unified",
  group: storage.get("perfmod-review-group") ?? "file",
  theme: storage.get("perfmod-theme") ?? "auto",
};

/** Two sides need room; where there is none, everybody gets one. */
const isSplit = () => view.diff === "split" && !narrow.matches;

function buildChoice(id, name, store, values, onChange) {
  for (const [value, text] of values) {
    const input = make("input", { type: "radio", name: `view-${name}`, value, checked: view[name] === value, change: () => {
      view[name] = value;
      storage.set(store, value);
      onChange();
    } });
    byId(id).append(make("label", {}, input, make("span", {}, text)));
  }
}

const showTheme = () => { document.documentElement.dataset.theme = view.theme; };

function buildView() {
  buildChoice("layouts", "diff", "perfmod-review-diff", [["unified", "Unified"], ["split", "Side by side"]], () => keepingPlace(rebuild));
  buildChoice("groupings", "group", "perfmod-review-group", [["file", "File"], ["rule", "Rule"]], () => keepingPlace(arrange));
  buildChoice("themes", "theme", "perfmod-theme", [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], showTheme);
  showTheme();
  narrow.addEventListener("change", () => {
    byId("filters").open = !narrow.matches;
    rebuild();
  });
  byId("filters").open = !narrow.matches;
}

let groups = [];

/** Puts the cards into their groups; a group stands where its first finding does. */
function arrange() {
  const byName = new Map();
  for (const item of items) {
    const name = view.group === "file" ? item.path : item.rule;
    if (!byName.has(name)) byName.set(name, { title: groupTitle(item), items: [] });
    byName.get(name).items.push(item);
  }
  groups = [...byName.values()];
  groups.forEach((group, index) => {
    group.count = make("span", { class: "count" });
    group.section = make("section", { "aria-labelledby": `g${index}` },
      make("h2", { id: `g${index}` }, group.title, " ", group.count), ...group.items.map((item) => item.card));
  });
  byId("groups").replaceChildren(...groups.map((group) => group.section));
  showFiltered();
}

const groupTitle = (item) => (view.group === "file" ? item.shownPath : `${item.rule} ${data.rules[item.rule].name}`);

/** Hides what the filters leave out, and counts what is left. */
function showFiltered() {
  const shown = new Set(shownItems);
  order = [];
  for (const group of groups) {
    const there = group.items.filter((item) => shown.has(item));
    if (group.section.hidden !== !there.length) group.section.hidden = !there.length;
    for (const item of group.items) {
      const isHidden = !shown.has(item);
      if (item.card.hidden !== isHidden) item.card.hidden = isHidden;
    }
    group.shown = there;
    order.push(...there);
  }
  showNumbers();
}

/** The progress, and how much of each group is decided. */
function showNumbers() {
  const decided = items.filter((item) => item.verdict !== "undecided").length;
  const accepted = items.filter((item) => item.verdict === "accepted").length;
  byId("decided").textContent = `${decided.toLocaleString("en")} of ${items.length.toLocaleString("en")} decided`;
  const bar = byId("bar");
  bar.setAttribute("aria-valuemax", Math.max(items.length, 1));
  bar.setAttribute("aria-valuenow", decided);
  bar.setAttribute("aria-valuetext", `${decided} of ${items.length} decided, ${accepted} accepted`);
  bar.style.setProperty("--accepted", items.length ? accepted / items.length : 0);
  bar.style.setProperty("--rejected", items.length ? (decided - accepted) / items.length : 0);
  for (const { count, shown } of groups) {
    const done = shown.filter((item) => item.verdict !== "undecided").length;
    const text = `${counted(shown.length, "finding")}${done ? `, ${done} decided` : ""}`;
    if (count.textContent !== text) count.textContent = text;
  }
  const isAll = order.length === items.length;
  byId("shown").textContent = isAll ? counted(items.length, "finding") : `${order.length} of ${counted(items.length, "finding")} shown`;
  byId("empty").hidden = order.length > 0;
  byId("empty").textContent = items.length ? "No finding passes the filters." : "There is nothing to review.";
  byId("accept-shown").disabled = !order.some((item) => item.verdict === "undecided");
  byId("undo").disabled = !undoable.length;
}

/** What is shown, in the order in which it stands there. */
let order = [];

const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) build(items[Number(target.id.slice(1))]);
  emptyOldest();
}, { rootMargin: "1200px 0px" });

/** Does something that moves cards, and leaves the one that is being read where it was on the screen. */
function keepingPlace(action) {
  const item = current ?? order.find((each) => each.card.getBoundingClientRect().bottom > 0);
  const before = item?.card.getBoundingClientRect().top;
  action();
  if (item && !item.card.hidden) scrollBy({ top: item.card.getBoundingClientRect().top - before, behavior: "instant" });
}

/** Paper shows everything that is shown on the screen. */
function buildForPrint() {
  for (const item of order) build(item);
}
addEventListener("beforeprint", buildForPrint);
matchMedia("print").addEventListener("change", (event) => { if (event.matches) buildForPrint(); });

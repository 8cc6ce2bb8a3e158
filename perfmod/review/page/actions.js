// What people do: go from finding to finding, and decide.

let current = null;

function mark(item) {
  if (current === item) return;
  current?.card.classList.remove("current");
  current = item;
  current?.card.classList.add("current");
}

/** Makes it the current finding, on the screen and for the keyboard. */
function goTo(item) {
  if (!isShown(item)) {
    for (const facet of FACETS) facet.chosen.clear();
    setSearch(byId("search").value = "");
    refilter();
  }
  // Neighbours that are built above would push it away while one looks at it.
  const at = order.indexOf(item);
  attach(at + STEP);
  for (const near of order.slice(Math.max(0, at - 1), at + 3)) build(near);
  mark(item);
  item.card.focus({ preventScroll: true });
  item.card.scrollIntoView({ block: "start" });
}

/** The finding so many places further; from the first on where none is current. */
function step(by, from = current) {
  const at = order.indexOf(from);
  const next = at < 0 ? order[0] : order[at + by];
  if (next) goTo(next);
  else say(by > 0 ? "That was the last finding." : "This is the first finding.");
}

/** What a decision came to, in a sentence. */
function tell(changed, item, verdict) {
  const others = changed.filter((each) => each !== item).length;
  const also = !others ? "" : verdict === "accepted"
    ? `, with ${others} that it builds on` : `; ${counted(others, "finding")} that built on it ${others === 1 ? "is" : "are"} undecided again`;
  say(`${verdict[0].toUpperCase()}${verdict.slice(1)}: ${nameOf(item)}${also}.`);
}

/** By mouse or on the radio button: decides and stays, unless the filters take the finding away. */
function decideHere(item, verdict) {
  mark(item);
  const next = neighbour(item);
  tell(decide([item], verdict), item, verdict);
  if (!isShown(item) && next && isShown(next)) goTo(next);
}

/** By key: decides and goes on. */
function decideAndGoOn(verdict) {
  if (!current || !isShown(current)) return step(1);
  const item = current;
  const next = neighbour(item);
  const isLast = item === order.at(-1);
  tell(decide([item], verdict), item, verdict);
  if (next && isShown(next) && !(isLast && isShown(item))) goTo(next);
}

const neighbour = (item) => order[order.indexOf(item) + 1] ?? order[order.indexOf(item) - 1];

/** Undecided again; where the current one is, the last step is taken back. */
function undecide() {
  if (current && isShown(current) && current.verdict !== "undecided") return decideHere(current, "undecided");
  undoLast();
}

function undoLast() {
  const changed = undo();
  if (!changed.length) return say("There is nothing to undo.");
  say(`Undone: ${changed.length === 1 ? `${nameOf(changed[0])} is ${changed[0].verdict}` : counted(changed.length, "finding")}.`);
  if (isShown(changed[0])) goTo(changed[0]);
}

async function acceptShown() {
  const open = order.filter((item) => item.verdict === "undecided");
  const bases = new Set(open.flatMap((item) => [...reach(item, "buildsOn")]));
  const more = [...bases].filter((item) => item.verdict !== "accepted" && !open.includes(item)).length;
  const rejected = order.filter((item) => item.verdict === "rejected").length;
  const text = [
    order.length === items.length ? "No filter is on: these are all findings." : "These are the findings that the filters leave.",
    rejected ? `${counted(rejected, "rejected finding")} among them ${rejected === 1 ? "stays" : "stay"} rejected.` : "",
    more ? `${counted(more, "finding")} that they build on ${more === 1 ? "is" : "are"} accepted, too.` : "",
  ].filter(Boolean).join(" ");
  const classes = Object.keys(data.classes).map((name) => [name, open.filter((item) => item.numerics === name).length]);
  const list = classes.filter(([, number]) => number).map(([name, number]) => `${number} ${name}`);
  if (!(await ask(`Accept ${counted(open.length, "undecided finding")}?`, text, `Accept ${open.length}`, list))) return;
  say(`Accepted: ${counted(decide(open, "accepted").length, "finding")}.`);
}

function refilter() {
  // Asked before anything changes: afterwards the whole page would have to be laid out for the answer.
  const isScrolled = byId("findings").getBoundingClientRect().top < 0;
  filterItems();
  showFiltered();
  writeAddress();
  if (isScrolled) scrollTo({ top: 0, behavior: "instant" });
}

/** Keeps the page in step with decisions. */
function afterDecision(changed) {
  for (const item of changed) showVerdict(item);
  filterItems();
  const isFiltered = FACETS[0].chosen.size > 0 || searched.length > 0;
  if (isFiltered) showChanged(changed);
  else showNumbers();
  send(changed);
}

async function importFile() {
  const [file] = byId("file").files;
  byId("file").value = "";
  if (!file) return;
  try {
    say(importDecisions(await file.text()));
  } catch (error) {
    say(`Not imported: ${error.message}.`);
  }
}

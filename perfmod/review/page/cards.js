// One card a finding. Its place in the document is made at once; its body when it comes near the screen.

const BUILT_AT_MOST = 300;
const built = new Map();
/** Those on the screen and around it, as the observer last saw them: asking each card would lay the page out. */
const near = new Set();
const folded = new Set();

/** The empty card: a heading, by which readers and keys find it. */
function shell(item) {
  const lines = item.diffs.reduce((sum, diff) => sum + diff.hunks.reduce((all, hunk) => all + hunk.lines.length, 2), 0);
  item.heading = make("h3", { id: `h${item.index}` }, make("span", { class: "code-of-rule" }, item.rule), " ", item.message);
  item.card = make("article", { id: `f${item.index}`, tabindex: "-1", "aria-labelledby": `h${item.index}` }, item.heading);
  item.card.style.setProperty("--lines", lines);
  observer.observe(item.card);
  showVerdict(item);
  return item.card;
}

const itemOf = (card) => items[Number(card.id.slice(1))];

function showVerdict(item) {
  if (!item.card) return;
  item.card.dataset.verdict = item.verdict;
  if (!item.body) return;
  for (const input of item.body.querySelectorAll("input[type=radio]")) input.checked = input.value === item.verdict;
  const note = item.body.querySelector("textarea");
  if (note && note.value !== item.note) note.value = item.note;
  item.body.querySelector(".printed").textContent = `${item.verdict}${item.note ? `: ${item.note}` : ""}`;
  for (const link of item.body.querySelectorAll("[data-base]")) link.textContent = baseText(byKey.get(link.dataset.base));
}

/** Builds what is missing; far too many built cards are emptied again, the oldest first. */
function build(item) {
  if (!item.body) {
    item.body = make("div", { class: "body" }, headline(item), folded.has(item) ? null : details(item));
    item.card.append(item.body);
    item.card.classList.toggle("folded", folded.has(item));
    showVerdict(item);
  }
  built.delete(item);
  built.set(item, true);
}

function emptyOldest() {
  for (const item of built.keys()) {
    if (built.size <= BUILT_AT_MOST) return;
    if (near.has(item) || item.card.contains(document.activeElement)) continue;
    item.body.remove();
    item.body = null;
    built.delete(item);
  }
}

function rebuild() {
  for (const item of [...built.keys()]) {
    item.body.remove();
    item.body = null;
    build(item);
  }
}

function fold(item) {
  if (!folded.delete(item)) folded.add(item);
  item.body?.remove();
  item.body = null;
  build(item);
  say(folded.has(item) ? "Folded away." : "Opened.");
}

function headline(item) {
  const numerics = make("span", { class: `tag ${item.numerics}` }, item.numerics);
  const state = item.state === "rewritten" ? null : make("span", { class: "tag state" }, data.states[item.state]);
  const also = item.also ? make("span", { class: "also" }, item.also) : null;
  return make("div", { class: "headline" },
    make("p", { class: "place" }, make("code", {}, item.place), item.scope ? make("span", { class: "scope" }, `in ${item.shownScope}`) : null,
      also, numerics, state, gain(item)),
    verdicts(item), make("p", { class: "printed" }));
}

function gain(item) {
  if (!item.proof?.ratio || item.proof.together.length) return null;
  return make("span", { class: item.proof.is_stale ? "tag stale" : "tag gain" }, `${ratio(item.proof.ratio)} faster${item.proof.is_stale ? ", stale" : ""}`);
}

function verdicts(item) {
  const choice = (value, text, key) => make("label", { class: value },
    make("input", { type: "radio", name: `v${item.index}`, value, "aria-keyshortcuts": key, change: () => decideHere(item, value) }),
    make("span", {}, text));
  return make("fieldset", { class: "verdicts" }, make("legend", { class: "unseen" }, `Verdict on ${nameOf(item)}`),
    choice("accepted", "Accept", "a"), choice("undecided", "Undecided", "u"), choice("rejected", "Reject", "r"));
}

function details(item) {
  const rule = data.rules[item.rule];
  return make("div", { class: "details" },
    make("dl", { class: "facts" }, ...facts(item)),
    ...diffsOf(item, isSplit()),
    item.diffs.length ? null : make("p", { class: "muted" }, "There is nothing to change here."),
    make("div", { class: "more" },
      make("label", { class: "note" }, "Note ", make("kbd", {}, "n"),
        make("textarea", { rows: 1, placeholder: "reason for the decision", input: grow, change: (event) => change(new Map([[item, { note: event.target.value.trim() }]])) })),
      make("details", { class: "rule" }, make("summary", {}, `About ${item.rule} ${rule.name}: ${rule.summary}`), explanation(rule))));
}

const grow = (event) => {
  event.target.style.height = "auto";
  event.target.style.height = `${event.target.scrollHeight + 2}px`;
};

function facts(item) {
  const fact = (title, ...content) => make("div", {}, make("dt", {}, title), ...content.map((each) => make("dd", {}, each)));
  const differ = [data.classes[item.numerics]];
  if (item.figures) differ.push("Figures that are only shown or logged may differ by a rounding.");
  const out = [
    fact(item.state === "open-question" ? "Open question" : "Why this is right", item.reason, ...item.observed),
    fact("What may differ", ...differ),
  ];
  if (item.proof) out.push(fact("Measured", ...measured(item.proof)));
  if (item.buildsOn.length) out.push(fact("Builds on", ...item.buildsOn.map(base)));
  return out;
}

const base = (other) => make("button", { type: "button", class: "link", "data-base": other.key, click: () => goTo(other) }, baseText(other));
const baseText = (other) => `${nameOf(other)} (${other.verdict})`;

const ratio = (value) => `${value.toFixed(2)}\u00d7`;

function measured(proof) {
  const out = [];
  if (proof.is_stale) out.push(make("span", { class: "stale" }, "Stale: the code has changed since this was measured."));
  if (proof.ratio !== null) {
    const rules = proof.together.length ? `, all of ${proof.together.join(", ")} together` : "";
    const range = proof.low === null ? "" : ` (${proof.low.toFixed(2)} to ${proof.high.toFixed(2)})`;
    out.push(make("strong", { class: proof.is_stale ? "muted" : "ratio" }, `${ratio(proof.ratio)}${range}${rules}`));
  }
  const verdict = { proven: "Proven: the same training", refuted: "Refuted: a different training", inconclusive: "Inconclusive" }[proof.verdict] ?? proof.verdict;
  const syncs = proof.syncs_removed ? `, ${counted(proof.syncs_removed, "synchronisation")} fewer per step` : "";
  out.push(make("span", { class: proof.is_stale ? "muted" : `proof ${proof.verdict}` }, `${verdict}${syncs}, on ${proof.where}`));
  out.push(make("span", { class: "muted" }, proof.source));
  return out;
}

/** The rule in prose: paragraphs, and code where lines are indented. */
function explanation(rule) {
  const blocks = rule.explanation.split(/\n\s*\n/).map((block) =>
    /^ {2,}/.test(block) ? make("pre", { tabindex: "0" }, block) : make("p", {}, block.replace(/\s*\n\s*/g, " ")));
  return make("div", { class: "explanation" }, ...blocks,
    make("p", {}, make("strong", {}, "The rewrite: "), rule.fix_title),
    rule.changes_results ? make("p", {}, make("strong", {}, "When this changes results: "), rule.changes_results) : null);
}

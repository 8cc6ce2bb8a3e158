// The projects, and by what they are filtered.

const data = JSON.parse(byId("data").textContent);
const items = data.projects;

items.forEach((item, index) => {
  item.index = index;
  item.rewrites = Object.values(item.rules).reduce((sum, number) => sum + number, 0);
  item.ruleCodes = Object.keys(item.rules);
  item.verdicts = item.scripts.length ? [...new Set(item.scripts.map((script) => script.verdict))] : ["not verified"];
});

const FACETS = [
  { name: "outcome", title: "Outcome", of: (item) => item.outcome, values: data.outcomes },
  { name: "cause", title: "Cause", of: (item) => item.causes },
  { name: "verdict", title: "Verdict", of: (item) => item.verdicts, values: [...data.verdicts, "not verified"] },
  { name: "kind", title: "Kind", of: (item) => item.kind || "unknown" },
  { name: "rule", title: "Rule", of: (item) => item.ruleCodes },
];

/** All words that a search may find in it, in small letters. */
function wordsOf(item) {
  item.words ??= [
    item.name, item.location, item.commit, item.outcome, item.reason, item.kind, item.verified,
    ...item.notes, ...item.causes, ...item.ruleCodes, ...item.branches, ...item.waiting, ...item.scripts.map((script) => script.name),
  ].join("\n").toLowerCase();
  return item.words;
}

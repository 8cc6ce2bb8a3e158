// The findings, and what was decided about them.

const data = JSON.parse(byId("data").textContent);
const items = data.items;
const byKey = new Map(items.map((item) => [item.key, item]));
const VERDICTS = ["undecided", "accepted", "rejected"];

items.forEach((item, index) => {
  item.index = index;
  item.neededBy = [];
});
for (const item of items) {
  item.buildsOn = item.buildsOn.map((key) => byKey.get(key)).filter(Boolean);
  for (const base of item.buildsOn) base.neededBy.push(item);
}

/** What it is called wherever it is spoken of. */
const nameOf = (item) => `${item.rule} ${item.place}`;

/** All words that a search may find in it, in small letters. */
function wordsOf(item) {
  item.words ??= [
    item.place, item.rule, data.rules[item.rule].name, item.scope, item.message, item.reason, item.note,
    ...item.elsewhere,
    ...item.diffs.flatMap((diff) => diff.hunks.flatMap((hunk) => hunk.lines.map((line) => line.text))),
  ].join("\n").toLowerCase();
  return item.words;
}

/** Everything that has to be accepted with it, or that cannot stay accepted without it. */
function reach(item, field, found = new Set()) {
  for (const other of item[field]) {
    if (found.has(other)) continue;
    found.add(other);
    reach(other, field, found);
  }
  return found;
}

// By what findings are filtered.

const FACETS = [
  { name: "verdict", title: "Verdict", of: (item) => item.verdict, values: VERDICTS, single: true },
  { name: "numerics", title: "What may differ", of: (item) => item.numerics, values: Object.keys(data.classes) },
  { name: "state", title: "Outcome", of: (item) => item.state, values: Object.keys(data.states),
    label: (value) => data.states[value] },
  { name: "rule", title: "Rule", of: (item) => item.rule, label: (value) => `${value} ${data.rules[value].name}` },
  { name: "file", title: "File", of: (item) => item.path, label: (value) => shownPaths.get(value) },
];
const shownPaths = new Map(items.map((item) => [item.path, item.shownPath]));

// Decisions: made, undone, kept, exported and imported.

const STORE = `perfmod-review-${data.page}`;
const undoable = [];
const listeners = [];
let isExported = true;

/** `listener` is given the items whose decision or note changed. */
const onDecision = (listener) => listeners.push(listener);

/** One step that can be undone; `changes` maps items to what changes in them. Returns the items that did change. */
function change(changes) {
  const before = new Map();
  for (const [item, { verdict = item.verdict, note = item.note }] of changes) {
    if (verdict === item.verdict && note === item.note) continue;
    before.set(item, { verdict: item.verdict, note: item.note });
    Object.assign(item, { verdict, note, words: null });
  }
  if (!before.size) return [];
  undoable.push(before);
  return settle(before);
}

/** Decides about some items, and about those that cannot be had without them or that they cannot be had without. */
function decide(chosen, verdict) {
  const changes = new Map(chosen.map((item) => [item, { verdict }]));
  for (const item of chosen) {
    if (verdict === "accepted") {
      for (const base of reach(item, "buildsOn")) changes.set(base, { verdict });
    } else {
      for (const other of reach(item, "neededBy")) {
        if (other.verdict === "accepted" && !changes.has(other)) changes.set(other, { verdict: "undecided" });
      }
    }
  }
  return change(changes);
}

/** Takes the last step back; the items that it was about. */
function undo() {
  const before = undoable.pop();
  if (!before) return [];
  for (const [item, was] of before) Object.assign(item, was, { words: null });
  return settle(before);
}

function settle(before) {
  const changed = [...before.keys()];
  isExported = false;
  keep();
  for (const listener of listeners) listener(changed);
  return changed;
}

/** One decision as `decisions.json` has it. */
const decisionOf = ({ path, rule, scope, fingerprint, occurrence, of, verdict, code, note }) =>
  ({ path, rule, scope, fingerprint, occurrence, of, verdict, code, note });

/** The document of some decisions, in the format of `decisions.json`. */
const documentOf = (chosen) => ({ schema_version: 1, decisions: chosen.map(decisionOf) });

const isDecided = (item) => item.verdict !== "undecided";

function exportDecisions() {
  const text = JSON.stringify(documentOf(items.filter(isDecided)), null, 2) + "\n";
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  make("a", { href: address, download: "decisions.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  isExported = true;
  keep();
}

const identity = (decision) =>
  JSON.stringify([decision.path, decision.rule, decision.fingerprint, decision.occurrence]);

/** Takes over the decisions of a document; says how many, and throws an Error with one line where it is none. */
function importDecisions(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error("the file is not JSON; choose a decisions.json");
  }
  if (document?.schema_version !== 1 || !Array.isArray(document.decisions)) {
    throw new Error("the file holds no decisions of schema_version 1");
  }
  const known = new Map(items.map((item) => [identity(item), item]));
  const changes = new Map();
  let unknown = 0;
  for (const decision of document.decisions) {
    const item = decision && known.get(identity(decision));
    if (item && VERDICTS.includes(decision.verdict)) {
      changes.set(item, { verdict: decision.verdict, note: String(decision.note ?? "") });
    } else {
      unknown += 1;
    }
  }
  change(changes);
  const rest = unknown ? `; ${unknown} are about nothing on this page` : "";
  return `${counted(changes.size, "decision")} taken over${rest}.`;
}

/** Keeps what differs from the page as it was written; whoever serves the page keeps it by itself. */
function keep() {
  if (data.server) return;
  const decisions = items.filter((item) => item.verdict !== item.writtenVerdict || item.note !== item.writtenNote);
  storage.set(STORE, JSON.stringify({ isExported, decisions: decisions.map((i) => [i.key, i.verdict, i.note]) }));
}

/** What an earlier visit left. */
function restore() {
  for (const item of items) Object.assign(item, { writtenVerdict: item.verdict, writtenNote: item.note });
  if (data.server) return;
  let kept;
  try {
    kept = JSON.parse(storage.get(STORE));
  } catch {
    return;
  }
  for (const [key, verdict, note] of kept?.decisions ?? []) {
    const item = byKey.get(key);
    if (item && VERDICTS.includes(verdict)) Object.assign(item, { verdict, note: String(note) });
  }
  isExported = kept?.isExported ?? true;
}

restore();
addEventListener("beforeunload", (event) => {
  if (data.server ? hasUnsent() : !isExported) event.preventDefault();
});

// Diffs as tables: one column of code, or both sides beside each other.

const SIGNS = { "+": ["added", "+"], "-": ["removed", "\u2212"], " ": ["", ""] };

function diffsOf(item, isSplit) {
  return item.diffs.map((diff) => {
    const { name } = diff;
    const table = make("table", { class: isSplit ? "diff split" : "diff" },
      make("caption", { class: "unseen" }, `Changes in ${name}`), isSplit ? splitHead() : unifiedHead());
    diff.hunks.forEach((hunk, index) => {
      if (index) table.append(gap(isSplit));
      table.append(make("tbody", {}, ...(isSplit ? splitRows(hunk) : unifiedRows(hunk))));
    });
    const box = make("div", { class: "code", tabindex: "0", role: "region", "aria-label": `Diff of ${name}, ${nameOf(item)}` }, table);
    return make("div", { class: "file" }, make("p", { class: "file-name" }, name), box);
  });
}

const head = (...titles) => make("thead", {},
  make("tr", {}, ...titles.map((title) => make("th", { scope: "col", class: /line/.test(title) ? "number" : null }, unseen(title)))));
const unifiedHead = () => head("Old line", "New line", "Code");
const splitHead = () => head("Old line", "Old code", "New line", "New code");

const gap = (isSplit) => make("tbody", { class: "gap" },
  make("tr", {}, make("td", { colspan: isSplit ? 4 : 3 }, unseen("lines left out"))));

function unifiedRows(hunk) {
  return numbered(hunk).map((line) => make("tr", {},
    number(line.old, line.sign), number(line.new, line.sign), code(line)));
}

function splitRows(hunk) {
  return sideBySide(numbered(hunk)).map(([left, right]) => make("tr", {},
    ...(left ? [number(left.old, left.sign), code(left)] : [nothing(), nothing()]),
    ...(right ? [number(right.new, right.sign), code(right)] : [nothing(), nothing()])));
}

/** The lines with their numbers on both sides. */
function numbered(hunk) {
  let [old, fresh] = [hunk.old, hunk.new];
  return hunk.lines.map((line) => ({
    ...line,
    old: line.sign === "+" ? null : old++,
    new: line.sign === "-" ? null : fresh++,
  }));
}

/** Pairs of lines; what became what stands in one row, and a block's lines without a partner fill up the rest. */
function sideBySide(lines) {
  const rows = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].sign === " ") {
      rows.push([lines[at], lines[at]]);
      at += 1;
      continue;
    }
    const removed = [];
    while (lines[at]?.sign === "-") removed.push(lines[at++]);
    const first = at;
    const added = [];
    while (lines[at]?.sign === "+") added.push(lines[at++]);
    let [left, right] = [0, 0];
    const upTo = (leftEnd, rightEnd) => {
      while (left < leftEnd || right < rightEnd) {
        rows.push([left < leftEnd ? removed[left++] : null, right < rightEnd ? added[right++] : null]);
      }
    };
    removed.forEach((line, index) => {
      if (line.partner === null) return;
      upTo(index, line.partner - first);
      rows.push([removed[left++], added[right++]]);
    });
    upTo(removed.length, added.length);
  }
  return rows;
}

const nothing = () => make("td", { class: "nothing" });

function number(value, sign) {
  return make("td", { class: `number ${SIGNS[sign][0]}` }, value === null ? "" : String(value));
}

function code(line) {
  const [name, sign] = SIGNS[line.sign];
  const cell = make("td", { class: `line ${name}` });
  if (name) cell.append(unseen(`${name}: `));
  cell.append(make("span", { class: "sign", "aria-hidden": "true" }, sign), ...pieces(line));
  return cell;
}

/** The text, cut wherever its kind changes or a changed word begins or ends. */
function pieces({ text, kinds, changed }) {
  const out = [];
  let start = 0;
  let mark = 0;
  for (let run = 0; run < kinds.length; run += 2) {
    const end = start + kinds[run];
    const kind = data.kinds[kinds[run + 1]];
    while (start < end) {
      while (mark < changed.length && changed[mark] <= start) mark += 1;
      const cut = Math.min(end, changed[mark] ?? end);
      // Behind an odd number of bounds one is inside of a changed word.
      out.push(piece(text.slice(start, cut), kind, mark % 2 === 1));
      start = cut;
    }
  }
  return out;
}

function piece(text, kind, isChanged) {
  if (!kind && !isChanged) return text;
  return make(isChanged ? "mark" : "span", { class: kind || null }, text);
}

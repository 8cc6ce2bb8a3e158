// What stands above the table: numbers, gains, causes, rules, questions.

const sum = (counts) => Object.values(counts).reduce((all, number) => all + number, 0);
const AT_FIRST = 8;
const AT_ONCE = 200;

function buildOverview() {
  const { totals } = data;
  byId("name").textContent = data.name;
  byId("about").textContent = data.about;
  byId("stopped").hidden = !data.stopped;
  byId("stopped").textContent = `Stopped: ${data.stopped}`;
  byId("totals").append(
    total("Projects", totals.projects, totals.outcomes),
    total("Files", sum(totals.files), totals.files),
    total("Findings", totals.findings, { rewritten: totals.rewrites, "questions for a person": totals.questions }),
    total("Patches", totals.patches, { "lines added": totals.added, "lines removed": totals.removed }),
    total("Branches", totals.branches, { "held back": totals.waiting }),
    total("Reviewed", totals.decided, { "rewrites to review": totals.of }),
    total("Scripts verified", sum(totals.verdicts), totals.verdicts));
  fill("gains", [...data.gains].sort((a, b) => b.ratio - a.ratio), gainRow);
  fill("causes", totals.causes, causeRow);
  const most = Math.max(1, ...totals.rules.map(([, rewrites]) => rewrites));
  fill("rules", [...totals.rules].sort((a, b) => b[1] - a[1]), (rule) => ruleRow(rule, most));
  fill("questions", data.questions, questionRow);
}

function total(name, number, counts) {
  const there = Object.entries(counts).filter(([, each]) => each);
  return make("div", {}, make("dt", {}, name), make("dd", {}, make("strong", {}, grouped(number)),
    make("ul", {}, ...there.map(([what, each]) => make("li", { "data-kind": what }, `${grouped(each)} ${what}`)))));
}

/** A list with its first rows; a button brings the others, not too many at once. */
function fill(id, rows, build) {
  const section = byId(id);
  section.hidden = !rows.length;
  section.querySelector(".count").textContent = grouped(rows.length);
  const list = section.querySelector(".list");
  let built = 0;
  const more = make("button", { type: "button", click: () => {
    const first = built;
    show(built + AT_ONCE);
    const row = list.children[first];
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
  } });
  const show = (end) => {
    list.append(...rows.slice(built, end).map(build));
    built = Math.min(end, rows.length);
    more.hidden = built === rows.length;
    more.textContent = `Show ${grouped(Math.min(AT_ONCE, rows.length - built))} more`;
  };
  section.append(more);
  show(AT_FIRST);
}

const filterBy = (facet, value, text) => make("button", { type: "button", class: "link", click: () => showOnly(facet, value) }, text);

function gainRow(gain) {
  return make("li", { class: "gain" },
    make("span", { class: "what" }, make("a", { href: gain.link }, `${gain.project}: ${gain.script}`)),
    make("span", { class: `verdict ${kindOf(gain.verdict)}` }, gain.verdict),
    intervalBar(gain.ratio, gain.low, gain.high),
    make("span", { class: "figure" }, gain.words),
    gain.where ? make("span", { class: "muted where" }, gain.where) : null);
}

function causeRow(cause) {
  const name = cause.cause || "other";
  return make("li", { class: "cause" },
    make("span", { class: "what" }, cause.cause ? filterBy("cause", cause.cause, name) : name, " ", make("span", { class: "muted" }, cause.outcome)),
    make("span", { class: "figure" }, counted(cause.projects, "project")),
    cause.example ? make("span", { class: "example muted" }, `Such as: ${cause.example}`) : null,
    cause.command ? make("code", { class: "command" }, cause.command) : null);
}

function ruleRow([code, rewrites, projects], most) {
  const bar = shape("svg", { class: "bar", viewBox: `0 0 ${WIDTH} 8`, width: WIDTH, height: 8, "aria-hidden": "true" });
  bar.append(shape("rect", { x: 0, y: 1, width: Math.max((rewrites / most) * WIDTH, 1), height: 6, rx: 1 }));
  return make("li", { class: "rule" }, make("span", { class: "what" }, filterBy("rule", code, code)), bar,
    make("span", { class: "figure" }, grouped(rewrites)), make("span", { class: "muted" }, `in ${counted(projects, "project")}`));
}

function questionRow(question) {
  return make("li", { class: "question" },
    make("span", { class: "what" }, make("strong", {}, question.project), " ", question.place ? make("code", {}, question.place) : null,
      question.code ? ` ${question.code}` : ""),
    make("span", { class: "example" }, question.text));
}

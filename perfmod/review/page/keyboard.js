// One key for each thing that is done often.

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  a: () => decideAndGoOn("accepted"),
  r: () => decideAndGoOn("rejected"),
  u: undecide,
  n: writeNote,
  x: () => (current ? fold(current) : step(1)),
  "/": () => {
    byId("filters").open = true;
    byId("search").select();
    byId("search").focus();
  },
  "?": () => byId("keys").showModal(),
};

function writeNote() {
  if (!current) return step(1);
  if (folded.has(current)) fold(current);
  build(current);
  current.body.querySelector("textarea").focus();
}

const isWriting = (element) =>
  element.matches("textarea, input:not([type=radio], [type=checkbox], [type=file]), select, [contenteditable]");

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (isWriting(event.target)) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.target.blur();
    if (current && isShown(current)) goTo(current);
    else byId("findings").focus();
    return;
  }
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// Puts the page together.

onDecision(afterDecision);
buildView();
buildFilters(refilter);
filterItems();
arrange();

byId("groups").addEventListener("focusin", (event) => {
  const card = event.target.closest("article");
  if (card) mark(itemOf(card));
});
byId("groups").addEventListener("pointerdown", (event) => {
  const card = event.target.closest("article");
  if (card) mark(itemOf(card));
});
atTheEnd.observe(byId("rest"));
byId("rest").addEventListener("click", () => {
  const first = order[attached];
  attach(order.length);
  if (first) goTo(first);
});
byId("accept-shown").addEventListener("click", acceptShown);
byId("undo").addEventListener("click", undoLast);
byId("export").addEventListener("click", exportDecisions);
byId("import").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", importFile);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("apply").hidden = !data.server;
byId("apply").addEventListener("click", applyAccepted);
// The first search should not have to wait for this.
const idle = window.requestIdleCallback ?? setTimeout;
idle(() => items.forEach(wordsOf));

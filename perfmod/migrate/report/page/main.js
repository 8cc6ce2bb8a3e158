// Puts the page together.

function refilter() {
  filterItems();
  showRows();
  writeAddress();
}

/** From a number above to the projects that it counts. */
function showOnly(name, value) {
  for (const facet of FACETS) facet.chosen.clear();
  FACETS.find((facet) => facet.name === name).chosen.add(value);
  setSearch(byId("search").value = "");
  refilter();
  byId("projects").focus({ preventScroll: true });
  byId("projects").scrollIntoView({ block: "start" });
}

buildThemes();
foldFilters();
buildOverview();
buildFilters(refilter);
filterItems();
buildTable();

addEventListener("beforeprint", buildForPrint);
matchMedia("print").addEventListener("change", (event) => { if (event.matches) buildForPrint(); });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const search = byId("search");
  if (event.target === search && event.key === "Escape") {
    event.preventDefault();
    byId("projects").focus();
  } else if (event.key === "/" && !event.target.matches("input[type=search], select")) {
    event.preventDefault();
    byId("filters").open = true;
    search.select();
    search.focus();
  }
});
// The first search should not have to wait for this.
const idle = window.requestIdleCallback ?? setTimeout;
idle(() => items.forEach(wordsOf));

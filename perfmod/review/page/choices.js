// What is chosen about the view, and kept by the browser.

const narrow = matchMedia("(max-width: 60rem)");
const view = { theme: storage.get("perfmod-theme") ?? "auto" };

function buildChoice(id, name, store, values, onChange) {
  for (const [value, text] of values) {
    const input = make("input", { type: "radio", name: `view-${name}`, value, checked: view[name] === value, change: () => {
      view[name] = value;
      storage.set(store, value);
      onChange();
    } });
    byId(id).append(make("label", {}, input, make("span", {}, text)));
  }
}

const showTheme = () => { document.documentElement.dataset.theme = view.theme; };

function buildThemes() {
  buildChoice("themes", "theme", "perfmod-theme", [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]], showTheme);
  showTheme();
}

/** The filters are folded away where they would push everything else off the screen. */
function foldFilters() {
  const fold = () => { byId("filters").open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
}

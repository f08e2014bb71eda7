// Light and dark: as the system has it until the reader chooses. A page with an element `theme`
// gets the field to choose in it.
//
// kt.theme.current()
//     "light" or "dark" as shown
// kt.theme.onChange(draw)
//     calls draw after each change, to draw charts again

kt.theme = (() => {
  const THEMES = ["auto", "light", "dark"];
  const darkScreen = window.matchMedia("(prefers-color-scheme: dark)");
  const drawers = [];
  let chosen = "auto";
  try {
    const stored = window.localStorage.getItem("ktdeval-theme");
    if (THEMES.includes(stored)) chosen = stored;
  } catch {
    /* storage is not allowed: the theme is that of the system on each page */
  }
  const changed = () => drawers.forEach((draw) => draw());
  const theme = {
    current: () => (chosen === "auto" ? (darkScreen.matches ? "dark" : "light") : chosen),
    onChange: (draw) => drawers.push(draw),
    choose(name) {
      chosen = name;
      document.documentElement.dataset.theme = name;
      try {
        window.localStorage.setItem("ktdeval-theme", name);
      } catch {
        /* as above */
      }
      changed();
    },
  };
  document.documentElement.dataset.theme = chosen; // before the first paint
  darkScreen.addEventListener("change", () => chosen === "auto" && changed());

  function themeField() {
    const field = kt.el(
      "select",
      {"aria-label": "Colours", change: () => theme.choose(field.value)},
      THEMES.map((name) =>
        kt.el(
          "option",
          {value: name, selected: name === chosen},
          name === "auto" ? "auto colours" : name,
        ),
      ),
    );
    return field;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("theme");
    if (place) kt.replace(place, themeField());
  });

  return theme;
})();

// Wide tables and code scroll by themselves, also by the keyboard.
(() => {
  const REGIONS = "pre, pre > code, .wide-table, .md-typeset__scrollwrap";

  function wrapTables() {
    for (const table of document.querySelectorAll("body > .container table")) {
      if (table.parentElement.classList.contains("wide-table")) continue;
      const box = document.createElement("div");
      box.className = "wide-table";
      table.replaceWith(box);
      box.append(table);
    }
  }

  function letRegionsBeReached() {
    for (const region of document.querySelectorAll(REGIONS)) {
      const scrolls = region.scrollWidth > region.clientWidth;
      if (scrolls) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  }

  function prepare() {
    wrapTables();
    letRegionsBeReached();
  }

  document.addEventListener("DOMContentLoaded", prepare);
  addEventListener("load", () => setTimeout(prepare));
  addEventListener("resize", letRegionsBeReached);
})();

// Wide tables and code scroll by themselves, also by the keyboard; parts of MkDocs' theme have names.
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

  function nameLandmarks() {
    document.querySelector("body > .navbar")?.setAttribute("role", "banner");
    const sidebar = document.querySelector(".bs-sidebar");
    sidebar?.setAttribute("role", "navigation");
    sidebar?.setAttribute("aria-label", "On this page");
  }

  function prepare() {
    wrapTables();
    nameLandmarks();
    letRegionsBeReached();
  }

  document.addEventListener("DOMContentLoaded", prepare);
  addEventListener("load", () => setTimeout(prepare));
  addEventListener("resize", letRegionsBeReached);
})();

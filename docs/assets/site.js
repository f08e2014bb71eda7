// Wide tables and code scroll by themselves; what scrolls can be reached by the keyboard, too.
(() => {
  const REGIONS = ".md-typeset pre, .md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset__table";

  function letRegionsBeReached() {
    for (const region of document.querySelectorAll(REGIONS)) {
      const scrolls = region.scrollWidth > region.clientWidth;
      if (scrolls) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  }

  // The box of a copy button is no landmark; an empty corner of a table is no header.
  function nameParts() {
    for (const box of document.querySelectorAll("nav.md-code__nav")) box.setAttribute("role", "none");
    for (const corner of document.querySelectorAll(".md-typeset th:empty")) {
      const cell = document.createElement("td");
      cell.className = "corner";
      corner.replaceWith(cell);
    }
  }

  function prepare() {
    nameParts();
    letRegionsBeReached();
  }

  document.addEventListener("DOMContentLoaded", prepare);
  addEventListener("load", () => {
    prepare();
    // Copy buttons come later, one by one.
    new MutationObserver(prepare).observe(document.body, {childList: true, subtree: true});
  });
  addEventListener("resize", letRegionsBeReached);
})();

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

  document.addEventListener("DOMContentLoaded", letRegionsBeReached);
  addEventListener("load", () => setTimeout(letRegionsBeReached));
  addEventListener("resize", letRegionsBeReached);
})();

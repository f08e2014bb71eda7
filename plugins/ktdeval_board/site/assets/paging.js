// A long list in pages, with a search. The words and the page stand in the address, as `q` and
// `page`.
//
// kt.paged({label, text, draw, count})
//     {element, update(items)}. text(item): what the search looks through; draw(items): the node of
//     one page; count(items): words for all that were found
"use strict";

kt.paged = (() => {
  const {el, replace, state, format} = kt;
  const SIZE = 50;
  const SEARCHED_FROM = 12; // fewer items are seen at once

  const wanted = () => state.get("q").toLowerCase().split(/\s+/).filter(Boolean);

  function paged({label, text, draw, count}) {
    const texts = new Map();
    const textOf = (item) => {
      if (!texts.has(item)) texts.set(item, text(item).toLowerCase());
      return texts.get(item);
    };
    const search = kt.controls.search({
      label: `Search ${label}`,
      onInput: (words) => state.set({q: words, page: ""}, {replace: true}),
    });
    const said = el("p.count", {role: "status", tabindex: "-1"});
    const list = el("div");
    const pager = el("nav.pager", {"aria-label": `Pages of ${label}`});

    function turn(page) {
      state.set({page: page > 1 ? String(page) : ""});
      said.focus({preventScroll: true}); // reading goes on at the top of the page
      said.scrollIntoView({block: "start"});
    }

    const turnTo = (words, page) => kt.button(words, () => turn(page), {class: "small"});

    function showPager(page, pages) {
      replace(
        pager,
        page > 1 ? turnTo("Previous page", page - 1) : null,
        el("span", `Page ${format.count(page)} of ${format.count(pages)}`),
        page < pages ? turnTo("Next page", page + 1) : null,
      );
      pager.hidden = pages < 2;
    }

    function update(items) {
      const words = wanted();
      const found = items.filter((item) => words.every((word) => textOf(item).includes(word)));
      const pages = Math.max(1, Math.ceil(found.length / SIZE));
      const asked = Number.parseInt(state.get("page"), 10) || 1;
      const page = Math.min(pages, Math.max(1, asked));
      const first = (page - 1) * SIZE;
      const shown = found.slice(first, first + SIZE);
      const range = `${format.count(first + 1)}–${format.count(first + shown.length)}`;
      search.element.hidden = items.length < SEARCHED_FROM && !words.length;
      search.set(state.get("q"));
      replace(said, count(found), pages > 1 ? `; ${range} of ${format.count(found.length)}` : "");
      replace(list, found.length ? draw(shown) : el("p.empty", "Nothing here has these words."));
      showPager(page, pages);
    }

    return {element: el("div", search.element, said, list, pager), update};
  }

  return paged;
})();

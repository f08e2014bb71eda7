// The page: reads its data, draws its parts, and draws again what a choice of the reader changes.

{
  const {el, byId} = kt;

  const read = (name) =>
    kt.unpack(byId(`data-${name}`).textContent.trim()).then((text) => JSON.parse(text));

  function fail(error) {
    const place = byId("trouble");
    place.hidden = false;
    kt.replace(place, String(error.message || error));
    throw error;
  }

  /** A choice in front of a part, and the part itself. */
  function chosen(label, options, first, draw) {
    const place = el("div", {});
    let value = first;
    const field = kt.controls.choice({
      label,
      options,
      onChange(given) {
        value = given;
        draw(place, value);
      },
    });
    field.set(first);
    return {
      field,
      element: el("div", {}, el("div.fields", {}, field.element), place),
      update(given) {
        if (given) {
          field.options(given);
          if (!given.some(([name]) => name === value)) [[value]] = given;
          field.set(value);
        }
        draw(place, value);
      },
    };
  }

  function fields(update, table) {
    const {view, page, words} = live;
    const own = words.entrants;
    const market = kt.controls.choice({
      label: own.market,
      options: page.markets.map(({name}) => [name, name]),
      onChange(name) {
        view.market = name;
        update();
      },
    });
    market.set(view.market);
    const search = kt.controls.search({
      label: own.search,
      onInput(text) {
        view.wanted = text;
        update();
      },
    });
    const ranked = kt.controls.check({
      label: own.only_ranked,
      onChange(is) {
        view.onlyRanked = is;
        update();
      },
    });
    return [
      page.markets.length > 1 ? market.element : null,
      search.element,
      page.kind === "live" ? ranked.element : null,
    ];
  }

  function draw() {
    const {view, words, page} = live;
    view.market = page.markets[0].name;
    if (page.kind === "rehearsal") view.sort = {key: "held", descending: true};

    const daysPlace = el("div", {});
    const returnsPlace = el("div", {});
    const costsPlace = el("div", {});
    const table = live.entrantsTable({
      onSort(key) {
        const isSame = view.sort.key === key;
        const startsHigh = !["rank", "entrant"].includes(key);
        view.sort = {key, descending: isSame ? !view.sort.descending : startsHigh};
        update();
      },
      onPick(name, is) {
        if (is) view.picked.add(name);
        else view.picked.delete(name);
        update();
        const box = document.querySelector(`[aria-label="${words.entrants.highlight} ${name}"]`);
        if (box) box.focus();
      },
    });
    const against = () => {
      const own = words.intervals;
      const hold = ["over_buy_and_hold", own.hold];
      return live.market().index === null ? [hold] : [["over_index", own.index], hold];
    };
    const names = () => live.entries().map(({entrant}) => [entrant, entrant]);
    const intervals = chosen(words.intervals.against, against(), against()[0][0], live.intervals);
    const pairs = chosen(words.pairs.from, names(), names()[0][0], live.pairs);

    function update() {
      table.update();
      live.days(daysPlace);
      live.returns(returnsPlace);
      intervals.update(against());
      pairs.update(names());
      live.costs(costsPlace);
    }

    const parts = [
      live.today(),
      kt.section(words.entrants.title, el("div.fields", {}, fields(update, table)), table.element),
      kt.section(words.days.title, daysPlace),
      kt.section(words.returns.title, returnsPlace),
      kt.section(words.intervals.title, intervals.element),
      kt.section(words.pairs.title, pairs.element),
      kt.section(words.costs.title, costsPlace),
      live.chain(),
      live.terms(),
    ];
    const links = parts.map((part, at) => {
      part.id = `part-${at}`;
      return el("li", {}, el("a", {href: `#${part.id}`}, part.querySelector("h2").textContent));
    });
    kt.replace(byId("jump"), links);
    const content = byId("content");
    kt.replace(content, parts);
    update();
    content.removeAttribute("aria-busy");
  }

  function localTimes() {
    document.querySelectorAll(".lead time").forEach((place) => {
      place.replaceWith(live.time(place.dateTime));
    });
  }

  Promise.all([read("page"), read("words")])
    .then(([page, words]) => {
      live.page = page;
      live.words = words;
      localTimes();
      draw();
    })
    .catch(fail);
}

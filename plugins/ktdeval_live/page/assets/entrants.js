// The table of entrants of a market: what is filtered, sorted and highlighted here holds for all
// charts below it.

{
  const {el, format} = kt;
  const {percent, number, value} = live;

  const interval = (excess) => excess.symmetric;

  /** Whether an entry's figure is on the scale of the column: a year's, or sums over days. */
  const isOnScale = (entry) => !live.isYearly() || entry.no_year === null;

  const KEYS = {
    rank: (entry) => entry.rank,
    entrant: (entry) => entry.entrant,
    held: (entry) => value(entry.results.held),
    flat: (entry) => value(entry.results.flat),
    bounds: (entry) => value(entry.results.high),
    excess: (entry) => interval(entry.results.over_index).mean,
    over_hold: (entry) => interval(entry.results.over_buy_and_hold).mean,
    sharpe: (entry) => value(entry.results.sharpe),
    counted: (entry) => entry.days.counted,
    gaps: (entry) => gapCount(entry),
    activity: (entry) => value(entry.results.activity),
  };

  live.sortKey = (entry, key) => KEYS[key](entry);

  const gapCount = (entry) => Object.values(entry.days.gaps).reduce((sum, count) => sum + count, 0);
  live.gapCount = gapCount;

  const EXCESSES = ["excess", "over_hold"];

  function unitOf(key) {
    const words = live.words.entrants;
    if (EXCESSES.includes(key)) return live.isYearly() ? words.yearly : words.plain;
    return words.columns[key].unit;
  }

  function columns() {
    const words = live.words.entrants.columns;
    const hasIndex = live.market().index !== null;
    const hasGaps = live.entries().some((entry) => gapCount(entry));
    const names = live.page.kind === "live" ? ["pick", "rank", "entrant"] : ["pick", "entrant"];
    // The figure that ranks comes first, so that a narrow screen shows it.
    if (hasIndex) names.push("excess");
    names.push("over_hold", "labels", "held");
    if (hasGaps) names.push("flat", "bounds");
    names.push("sharpe", "counted", "gaps", "activity");
    const plain = new Set(["pick", "entrant", "labels"]);
    return names.map((key) => ({
      key,
      title: words[key].title,
      unit: unitOf(key),
      hint: words[key].hint,
      n: !plain.has(key),
      hidden: key === "pick",
      className: key === "pick" || key === "entrant" ? key : null,
      sorts: Object.hasOwn(KEYS, key),
    }));
  }

  const LEAST_YEARLY = 20; // reach of whiskers in % a year, at least
  const LEAST_PLAIN = 2; // in % over the days
  const PERCENT = {digits: 1, signed: true};
  const RATIO = {digits: 2, signed: true};

  function bare({value: fraction, reason}) {
    const percentage = fraction === null ? null : 100 * fraction;
    return el("td.n", {}, format.cell(percentage, "other", reason, PERCENT));
  }

  function bounds({low, high}) {
    if (low.value === null || high.value === null) return bare(low);
    return el("td.n", {}, `${number(100 * low.value)} … ${number(100 * high.value)}`);
  }

  function excess(entry, one, ends) {
    const found = live.excess(interval(one), entry);
    if (!kt.known(found.mean)) return el("td.n", {}, format.cell(null, "", found.reason));
    const rangeDigits = found.digits - 1;
    const days = live.say(live.words.entrants.in_days, {n: found.n});
    return el(
      "td.n.with-whisker",
      entry.no_year === null ? {} : {title: entry.no_year},
      el("span.figure", {}, number(found.mean, found.digits)),
      isOnScale(entry) ? kt.drawing.whisker(found, ends) : el("span.between", {}, days),
      el("span.between", {}, live.range(found, rangeDigits)),
    );
  }

  function ratio({value: found, reason}, ends) {
    const figure = format.cell(found, "other", reason, RATIO);
    if (!ends) return el("td.n", {}, figure);
    const [low, high] = ends;
    const range = live.range({low, high}, 1);
    const between = el("span.between", {}, range);
    return el("td.n.with-whisker", {}, el("span.figure", {}, figure), between);
  }

  function pick(entry, paint, onPick) {
    const colour = paint.get(entry.entrant);
    const box = el("input", {
      type: "checkbox",
      "aria-label": `${live.words.entrants.highlight} ${entry.entrant}`,
      checked: live.view.picked.has(entry.entrant),
      change: () => onPick(entry.entrant, box.checked),
    });
    const key = el(colour ? `span.key.c${colour}` : "span.key.grey", {});
    return el("td.pick", {}, el("label", {}, box, key));
  }

  /** Whole per cent of a part. */
  const share = ({value: part}) => (kt.known(part) ? format.number(100 * part, 0) : format.NONE);

  function labels(entry) {
    return entry.labels.map((name) => {
      const own = live.words.labels[name];
      const chip = own ? kt.chip(name, own.tone, own.meaning) : kt.labelChip(name);
      return [chip, " "];
    });
  }

  function cells(entry, ends, paint, onPick) {
    const {results, days} = entry;
    const {activity} = results;
    return {
      pick: pick(entry, paint, onPick),
      rank: el("td.n.rank", {}, format.cell(entry.rank, "count", live.words.entrants.no_rank)),
      entrant: el(
        "th.entrant",
        {scope: "row"},
        el("span.name", {}, live.name(entry.entrant)),
        el("span.about", {}, live.name(` ${entry.model} · ${entry.agent}`)),
      ),
      labels: el("td.labels-cell", {}, labels(entry)),
      held: bare(results.held),
      flat: bare(results.flat),
      bounds: bounds(results),
      excess: excess(entry, results.over_index, ends),
      over_hold: excess(entry, results.over_buy_and_hold, ends),
      sharpe: ratio(results.sharpe, entry.sharpe_ends),
      counted: el("td.n", {}, format.count(days.counted)),
      gaps: el("td.n", {}, format.count(gapCount(entry))),
      activity: el("td.n", {}, share(activity)),
    };
  }

  /** One scale for all whiskers: the reach of the means, and as much again. */
  function whiskerEnds(entries) {
    const means = entries.filter(isOnScale).flatMap((entry) => {
      const {over_index: index, over_buy_and_hold: hold} = entry.results;
      return [index, hold].map((one) => live.excess(interval(one), entry).mean);
    });
    const sizes = means.filter(kt.known).map(Math.abs);
    const least = live.isYearly() ? LEAST_YEARLY : LEAST_PLAIN;
    const reach = Math.max(least, ...sizes) * 2;
    return [-reach, reach];
  }
  live.whiskerEnds = whiskerEnds;

  function hint() {
    const words = live.words.entrants;
    const short = live.entries().find(({no_year: reason}) => reason !== null);
    const noYear = short ? ` ${live.say(words.hint_short, {reason: short.no_year})}` : "";
    if (live.page.kind === "rehearsal") return `${words.hint_rehearsal}${noYear}`;
    const against = live.market().index === null ? words.against_hold : words.against_index;
    const activity = `${format.number(100 * live.page.least_activity, 0)} %`;
    return `${live.say(words.hint, {against, activity})}${noYear}`;
  }

  /** Build the table once; `update` draws what the view says. */
  live.entrantsTable = ({onSort, onPick}) => {
    const words = live.words.entrants;
    const place = el("div", {});
    const count = el("p.count", {role: "status"});
    const note = el("p.quiet.hint", {});
    let table = null;
    let caption = "";

    function update() {
      const name = live.say(words.caption, {market: live.view.market});
      if (name !== caption) {
        caption = name;
        table = kt.table.sortable({caption: name, onSort});
        kt.replace(place, table.element);
      }
      const shown = live.shown();
      const ends = whiskerEnds(live.entries());
      const paint = live.paint();
      const heads = columns();
      table.head(heads, live.view.sort);
      table.rows(
        shown.map((entry) => {
          const made = cells(entry, ends, paint, onPick);
          const isUnranked = entry.rank === null && live.page.kind === "live";
          return el(
            `tr${isUnranked ? ".unranked" : ""}`,
            {},
            heads.map(({key}) => made[key]),
          );
        }),
      );
      const all = live.entries().length;
      kt.replace(
        count,
        shown.length ? live.say(words.found, {shown: shown.length, all}) : words.nothing,
      );
      kt.replace(note, hint());
    }

    return {element: el("div", {}, count, place, note), update};
  };

  live.percentOf = (figure) => percent(value(figure));
}

// Where the test stands: next due time, and a row for each market.

{
  const {el} = kt;

  function next() {
    const {next_due: due} = live.page;
    const words = live.words.today;
    if (!due) return words.no_next;
    const [before, after] = words.next_value.split("{time}");
    return [before, live.time(due.at), live.say(after, {market: due.market})];
  }

  /** What the entrants of a market have done on its latest day; its last day only fills. */
  function decisions({name, days, last_frozen: day}) {
    const at = days.indexOf(day);
    const states = live.page.entries
      .filter(({market}) => market === name)
      .map((entry) => entry.states[at])
      .filter(Boolean);
    const titles = live.words.days.states;
    const found = Object.keys(titles).filter((state) => states.includes(state));
    if (!found.length) return kt.format.NONE;
    return found
      .map((state) => `${states.filter((one) => one === state).length} ${titles[state].title}`)
      .join(", ");
  }

  function row(market) {
    return [
      market.name,
      market.task,
      kt.format.count(market.deciding),
      live.say("{frozen} / {all}", {frozen: market.frozen, all: market.days.length}),
      market.last_frozen || kt.format.NONE,
      decisions(market),
      el("td", {}, live.time(market.next_close)),
      el("td", {}, live.time(market.next_cutoff)),
      kt.format.count(market.revisions),
    ];
  }

  live.today = () => {
    const {page, words} = live;
    const own = words.today;
    const isOverdue =
      page.kind === "live" && page.next_due && Date.now() > new Date(page.next_due.at).getTime();
    const [name, task, ...others] = own.market_heads;
    const numeric = new Set([own.market_heads[2], own.market_heads[3], own.market_heads[8]]);
    return kt.section(
      own.title,
      isOverdue ? el("p.trouble", {id: "overdue"}, own.overdue) : null,
      live.facts([
        [own.next, next()],
        [own.days, live.say(own.days_value, {first: page.first, last: page.last})],
        [own.seal, page.is_sealed ? own.sealed : own.open],
        [words.chain.evidence, [live.evidence(page.chain.evidence), ` ${page.chain.proves}.`]],
      ]),
      kt.table.plain({
        caption: own.markets,
        head: [name, task, ...others.map((text) => ({text, n: numeric.has(text)}))],
        rows: page.markets.map(row),
      }),
    );
  };
}

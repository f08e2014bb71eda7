// Differences of two entrants, costs, the chain and the words: tables.

{
  const {el, format} = kt;

  // -- pairs

  const LEAST_YEARLY = 20; // reach of whiskers in % a year, at least
  const LEAST_PLAIN = 2; // in % over the days

  const turned = ({mean, low, high, n, reason}) => ({
    mean: kt.known(mean) ? -mean : null,
    low: kt.known(high) ? -high : null,
    high: kt.known(low) ? -low : null,
    n,
    reason,
  });

  /** The rows of an entrant, each with why it is the sum of its days; null for a year's mean. */
  function differences(entrant) {
    const own = live.page.pairs.filter(({market}) => market === live.view.market);
    const found = [];
    own.forEach(({entrant: one, minus, excess, no_year: reason}) => {
      if (one === entrant) found.push({name: minus, excess: excess.symmetric, reason});
      else if (minus === entrant) found.push({name: one, excess: turned(excess.symmetric), reason});
    });
    found.sort((one, other) => kt.table.compare(one.excess.mean, other.excess.mean, true));
    return found.map(({name, excess, reason}) => ({
      name,
      reason,
      one: live.excess(excess, {no_year: reason}),
    }));
  }

  /** The figure; among means of a year, a sum over days says of how many. */
  function difference({one, reason}, isYearly) {
    const figure = format.cell(one.mean, "other", one.reason, {digits: one.digits, signed: true});
    if (!isYearly || reason === null || !kt.known(one.mean)) return figure;
    const days = live.say(live.words.entrants.in_days, {n: one.n});
    return el("td.n", {title: reason}, figure, el("span.between", {}, ` ${days}`));
  }

  function verdict({low, high}) {
    const words = live.words.pairs.verdict;
    if (kt.known(low) && low > 0) return kt.chip(words.above, "good");
    if (kt.known(high) && high < 0) return kt.chip(words.below, "bad");
    return el("span.quiet", {}, words.unclear);
  }

  live.pairs = (place, entrant) => {
    const words = live.words.pairs;
    const found = differences(entrant);
    if (!found.length) {
      kt.replace(place, el("p.quiet", {}, words.alone));
      return;
    }
    const isYearly = found.some(({reason}) => reason === null);
    const onScale = found.filter(({reason}) => !isYearly || reason === null);
    const sizes = onScale.flatMap(({one: {mean}}) => (kt.known(mean) ? [Math.abs(mean)] : []));
    const reach = Math.max(isYearly ? LEAST_YEARLY : LEAST_PLAIN, ...sizes) * 2;
    const lead = isYearly ? words.lead : live.say(words.lead_plain, found[0]);
    const numeric = new Set([1, 2, 4]);
    kt.replace(
      place,
      el("p.quiet", {}, lead),
      kt.table.plain({
        caption: live.say(words.caption, {entrant}),
        showCaption: true,
        head: words.heads.map((text, at) => ({text, n: numeric.has(at)})),
        rows: found.map((row) => [
          el("th", {scope: "row"}, live.name(row.name)),
          difference(row, isYearly),
          live.range(row.one, row.one.digits),
          el("td", {}, onScale.includes(row) ? kt.drawing.whisker(row.one, [-reach, reach]) : null),
          format.count(row.one.n ?? 0),
          el("td", {}, verdict(row.one)),
        ]),
      }),
    );
  };

  // -- costs

  const SPARK = {width: 130, height: 22};

  function spark(entry) {
    const {usd, tokens} = entry.costs;
    const values = usd.some(kt.known) ? usd : tokens;
    const label = live.say(live.words.costs.spark, entry);
    return kt.drawing.bars(values, {...SPARK, label}) || format.NONE;
  }

  live.costs = (place) => {
    const words = live.words.costs;
    const entries = live.shown();
    if (!entries.some(({costs}) => costs.calls)) {
      kt.replace(place, el("p.quiet", {}, words.nothing));
      return;
    }
    const usd = (value) => format.value(value, "usd");
    const count = (value) => (kt.known(value) ? format.count(Math.round(value)) : format.NONE);
    const [entrant, model, ...others] = words.heads;
    const last = others.pop();
    kt.replace(
      place,
      el("p.quiet", {}, words.lead),
      kt.table.plain({
        caption: live.say(words.caption, {market: live.view.market}),
        head: [entrant, model, ...others.map((text) => ({text, n: true})), last],
        rows: entries.map((entry) => {
          const {costs} = entry;
          return [
            el("th", {scope: "row"}, live.name(entry.entrant)),
            el("td", {}, live.name(entry.model)),
            usd(costs.usd_total),
            usd(costs.usd_a_day),
            count(costs.tokens_a_day),
            count(costs.calls),
            count(costs.failed),
            kt.known(costs.error_rate)
              ? `${format.number(100 * costs.error_rate, 1)}\u202f%`
              : format.NONE,
            el("td", {}, spark(entry)),
          ];
        }),
      }),
    );
  };

  // -- chain

  /** How many there are, and when the first and the last were written. */
  function links(chain) {
    const text = live.say(live.words.chain.links_value, {links: format.count(chain.links)});
    const [before, between, after] = text.split(/\{first\}|\{last\}/);
    return [before, live.time(chain.begun_at), between, live.time(chain.last_at), after];
  }

  live.chain = () => {
    const {chain} = live.page;
    const words = live.words.chain;
    const {authority} = chain;
    const publications = live.say(words.publications_value, {
      all: chain.publications,
      pushed: chain.pushed,
      stamped: chain.stamped,
    });
    const unpublished = live.say(words.unpublished_value, {links: chain.unpublished});
    const yes = (value) => (value ? words.yes : words.no);
    return kt.section(
      words.title,
      live.facts([
        [words.evidence, [live.evidence(chain.evidence), ` ${chain.proves}.`]],
        [words.authority, authority ? live.say(words.authority_value, authority) : null],
        [
          words.if_trusted,
          authority ? [live.evidence(chain.evidence_if_trusted), ` ${words.how}`] : null,
        ],
        [words.links, links(chain)],
        [words.head, el("code", {}, chain.head)],
        [words.plan, el("code", {}, chain.plan)],
        [words.publications, publications],
        [words.unpublished, chain.unpublished ? unpublished : null],
      ]),
      chain.latest.length
        ? kt.details(
            words.caption,
            kt.table.plain({
              caption: words.caption,
              head: words.heads.map((text, at) => ({text, n: at === 0})),
              rows: chain.latest.map((one) => [
                format.count(one.seq),
                el("td", {}, live.time(one.at)),
                el("td", {}, el("code", {}, one.commit.slice(0, 12))),
                yes(one.pushed),
                el("td", {}, one.stamped_at ? live.time(one.stamped_at) : format.NONE),
              ]),
            }),
          )
        : null,
    );
  };

  live.terms = () =>
    kt.section(
      live.words.terms.title,
      el(
        "dl.terms",
        {},
        live.words.terms.list.map(([term, meaning]) =>
          el("div", {}, el("dt", {}, term), el("dd", {}, meaning)),
        ),
      ),
    );
}

// Mean excess returns as they went on, each with the band of its interval.

{
  const {el} = kt;
  const {number} = live;
  const MOST_MEDIANS = 2; // an interval that reaches further is cut
  const ROOM = 1.25;
  const LEAST_YEARLY = 10; // reach in % a year, at least
  const LEAST_PLAIN = 1; // in % over the days

  /** A series of means in % a year as it is shown; over the days so far, it is their sums. */
  function shownSeries(entry, key) {
    const series = entry[key];
    if (live.isYearly()) return series;
    const year = live.market().days_a_year;
    const sums = (values) =>
      values.map((value, at) => (kt.known(value) ? (value * (at + 1)) / year : null));
    return {
      sessions: series.sessions,
      mean: sums(series.mean),
      low: sums(series.low),
      high: sums(series.high),
      asymptotic_low: sums(series.asymptotic_low),
      asymptotic_high: sums(series.asymptotic_high),
    };
  }

  /** Ends of all panels. One wide interval does not make all others too narrow to read. */
  function endsOf(series) {
    const latest = series.map(({mean, low, high}) => [mean.at(-1), low.at(-1), high.at(-1)]);
    const reaches = latest.map((ends) => Math.max(...ends.filter(kt.known).map(Math.abs)));
    reaches.sort((one, other) => one - other);
    const median = reaches[Math.ceil(reaches.length / 2) - 1];
    const reach = Math.min(reaches.at(-1), MOST_MEDIANS * median);
    const least = live.isYearly() ? LEAST_YEARLY : LEAST_PLAIN;
    const most = ROOM * Math.max(least, reach);
    return [-most, most];
  }

  function panel(entry, key, {ends, span}) {
    const words = live.words.intervals;
    const series = shownSeries(entry, key);
    const excess = live.excess(entry.results[key].symmetric, entry);
    const {digits} = excess;
    const lines = [
      {className: "line asymptotic", sessions: series.sessions, values: series.asymptotic_low},
      {className: "line asymptotic", sessions: series.sessions, values: series.asymptotic_high},
      {className: "line held", sessions: series.sessions, values: series.mean},
    ];
    const label = live.say(words.panel, {
      entrant: entry.entrant,
      mean: number(excess.mean, digits),
      per: live.isYearly() ? words.yearly : words.plain,
      against: words[key === "over_index" ? "index" : "hold"],
      low: number(excess.low, digits),
      high: number(excess.high, digits),
      n: excess.n ?? 0,
    });
    const band = {className: "band", sessions: series.sessions, low: series.low, high: series.high};
    const figures = kt.known(excess.mean)
      ? [number(excess.mean, digits), el("span.between", {}, ` ${live.range(excess, digits - 1)}`)]
      : words.none;
    return live.panel(entry.entrant, figures, {lines, band, ends, span, unit: "", label});
  }

  live.intervals = (place, key) => {
    const words = live.words.intervals;
    const withDays = live.shown().filter((entry) => entry[key].sessions.length);
    // a sum over days and a year's mean have no common scale
    const entries = withDays.filter(({no_year: reason}) => !live.isYearly() || reason === null);
    const short = withDays.length - entries.length;
    if (!entries.length) {
      kt.replace(place, el("p.empty", {}, live.words.returns.no_days));
      return;
    }
    const series = entries.map((entry) => shownSeries(entry, key));
    const firsts = series.map(({sessions}) => sessions[0]);
    const lasts = series.map(({sessions}) => sessions.at(-1));
    const span = [Math.min(...firsts), Math.max(...lasts)];
    const common = {ends: endsOf(series), span};
    const isBounded = series.some(({low}) => kt.known(low.at(-1)));
    const hasAsymptotic = series.some(({asymptotic_low: low}) => kt.known(low.at(-1)));
    const made = entries.map((entry) => panel(entry, key, common));
    kt.replace(
      place,
      el(
        "p.quiet",
        {},
        live.say(words.lead, {
          figure: live.isYearly() ? words.lead_yearly : words.lead_plain,
          level: `${kt.format.number(100 * live.page.level, 0)} %`,
        }),
      ),
      short ? el("p.quiet", {}, live.say(words.short, {short})) : null,
      isBounded ? null : el("p.quiet", {}, words.nothing),
      el(
        "p.legend",
        {},
        live.key("held", words.mean),
        live.key("area", words.band),
        hasAsymptotic ? live.key("asymptotic", words.asymptotic) : null,
      ),
      live.panels(made),
      el("p.quiet.hint", {}, words.note),
    );
    made.forEach(({draw}) => draw());
  };
}

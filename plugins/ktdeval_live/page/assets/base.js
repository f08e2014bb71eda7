// What the parts of the live page share.
//
// live.page, live.words
//     the data and the words, once `live.ready` is there
// live.say("{a} of {b}", {a: 1, b: 2})
//     a text with its values filled in
// live.time("2027-01-04T20:50:00Z")
//     a <time> in UTC, with the reader's own time after it
// live.percent(fraction, digits), live.number(value, digits)
//     figures with a sign, or a dash
// live.view
//     {market, wanted, onlyRanked, sort, picked}: what the reader has chosen
// live.entries(), live.shown()
//     entries of the chosen market, in the order of the table: all, or those that the filter leaves
// live.name("a_long_name"), live.range({low, high}, digits)
//     a name that may break after its low lines; both ends of an interval
// live.excess(interval, one), live.isYearly()
//     a mean excess return of an entry or a pair as it is shown, with the digits of its texts: a
//     year's, or the sum over the days of a record under a year; whether any of the market's is a
//     year's
// live.evidence("pushed")
//     a level of evidence as a chip
// live.facts([[term, value], …])
//     facts with long texts
// live.paint()
//     name of an entrant -> number of its colour; those without one are grey

const live = {
  page: null,
  words: null,
  view: {
    market: "",
    wanted: "",
    onlyRanked: false,
    sort: {key: "rank", descending: false},
    picked: new Set(),
  },
};

{
  const {el, format, known} = kt;
  const MOST_COLOURED = 8;
  const PICKED_FIRST = 3;

  live.say = (text, values) =>
    text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));

  const day = (text) => text.slice(0, 10);
  const minute = (text) => `${day(text)} ${text.slice(11, 16)} UTC`;

  /** The reader's own time, where it is not UTC: the day too, if it is another one. */
  function localTime(text) {
    const at = new Date(text);
    if (at.getTimezoneOffset() === 0) return "";
    const parts = {hour: "2-digit", minute: "2-digit", hourCycle: "h23"};
    const clock = at.toLocaleTimeString("en-GB", parts);
    const own = at.toLocaleDateString("sv-SE");
    return own === day(text) ? clock : `${own} ${clock}`;
  }

  live.time = (text) => {
    if (!text) return live.words.none_left;
    const own = localTime(text);
    return el(
      "time",
      {datetime: text},
      el("span.nb", {}, minute(text)),
      own ? el("span.local", {}, ` (${live.say(live.words.local, {time: own})})`) : null,
    );
  };

  live.percent = (fraction, digits = 1) =>
    known(fraction) ? `${format.number(100 * fraction, digits, true)}\u202f%` : format.NONE;
  live.number = (value, digits = 1) => format.number(value, digits, true);

  /** Value of a figure of a card, or null. */
  live.value = (figure) => (figure ? figure.value : null);

  live.market = () => live.page.markets.find(({name}) => name === live.view.market);

  live.entries = () => {
    const {key, descending} = live.view.sort;
    const own = live.page.entries.filter(({market}) => market === live.view.market);
    return own
      .map((entry) => [live.sortKey(entry, key), entry])
      .sort(([one], [other]) => kt.table.compare(one, other, descending))
      .map(([, entry]) => entry);
  };

  live.shown = () => {
    const wanted = live.view.wanted.toLowerCase();
    return live
      .entries()
      .filter(({rank}) => !live.view.onlyRanked || rank !== null)
      .filter(({entrant, model, agent}) =>
        `${entrant} ${model} ${agent}`.toLowerCase().includes(wanted),
      );
  };

  live.paint = () => {
    const {picked} = live.view;
    const names = live.entries().map(({entrant}) => entrant);
    const chosen = names.filter((name) => picked.has(name));
    let coloured = chosen;
    if (!chosen.length && names.length <= MOST_COLOURED) coloured = names;
    else if (!chosen.length) coloured = names.slice(0, PICKED_FIRST);
    return new Map(coloured.slice(0, MOST_COLOURED).map((name, at) => [name, at + 1]));
  };

  /** Facts one below the other, as their texts are long. */
  live.facts = (pairs) => {
    const list = kt.facts(pairs);
    list.classList.add("long");
    return list;
  };

  /** A name that may go on in the next line after its slashes, dashes and low lines. */
  live.name = (name) =>
    name.split(/(?<=[/_-])/).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));

  /** Both ends of an interval; an end that nothing bounds yet is a dash. */
  live.range = ({low, high}, digits = 1) => {
    if (!known(low) && !known(high)) return format.NONE;
    return `${live.number(low, digits)} … ${live.number(high, digits)}`;
  };

  const YEARLY_DIGITS = 1;
  const PLAIN_DIGITS = 2; // returns over a few days are small

  /** Whether the record of any entry of the market spans a year. */
  live.isYearly = () =>
    live.page.entries.some(
      ({market, no_year: reason}) => market === live.view.market && reason === null,
    );

  /** A mean in % a year as it is shown. A mean times its number of days is the sum of the days. */
  live.excess = (interval, {no_year: reason}) => {
    if (reason === null || !known(interval.mean)) return {...interval, digits: YEARLY_DIGITS};
    const share = interval.n / live.market().days_a_year;
    const scaled = (end) => (known(end) ? end * share : null);
    return {
      ...interval,
      mean: scaled(interval.mean),
      low: scaled(interval.low),
      high: scaled(interval.high),
      digits: PLAIN_DIGITS,
    };
  };

  /** A level of evidence. */
  live.evidence = (level) => kt.chip(level, live.words.evidence[level].tone);

  live.key = (kind, text) => el("span.key-item", {}, el(`span.key.${kind}`, {}), text);
}

// Figures as people read them. What is not known is a dash.
//
// kt.format.value(number, unit, {signed, bare, digits})
//     "12.30 %", "1.523", "$0.0140"; bare omits the unit
// kt.format.cell(number, unit, reason, options)
//     the same as a node; a dash has its reason as a title and for screen readers
// kt.format.percent(fraction, digits = 2, signed), kt.format.number(number, digits = 2, signed)
// kt.format.count(number), kt.format.short(cardId)
// kt.format.quantity(number, digits = 0, most = 8)
//     as many decimals as it needs, between these
// kt.format.range(low, high, unit)
//     "−1.08 … 1.16 %"
// kt.format.unit(unit)
//     for a heading, such as "%" or "per year"
// kt.format.hasSign(unit)
//     whether gains of a unit are written with a plus next to losses: fractions and ratios
// kt.format.list(["a", "b"])
//     "a, b"
// kt.format.tie(1)
//     "A"
// kt.plural(3, "window")
//     "3 windows"

Object.assign(
  kt,
  (() => {
    const {el} = kt;
    const NONE = kt.values.words.undefined;
    const MOST_DECIMALS = 8;
    const NARROW = "\u202f";
    const known = (value) => typeof value === "number" && Number.isFinite(value);

    /** Written out: Intl would cost a long table a good part of its time. */
    function number(value, digits = 2, signed = false) {
      if (!known(value)) return NONE;
      const [whole, decimals] = Math.abs(value).toFixed(digits).split(".");
      const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (decimals ? `.${decimals}` : "");
      const isZero = !/[1-9]/.test(text);
      if (isZero) return text;
      if (value < 0) return `−${text}`;
      return signed ? `+${text}` : text;
    }

    const formats = new Map();

    /** A number with as many decimals as it needs: at least `digits`, and `most` at most. */
    function quantity(value, digits = 0, most = MOST_DECIMALS) {
      if (!known(value)) return NONE;
      const key = `${digits} ${most}`;
      if (!formats.has(key)) {
        formats.set(
          key,
          new Intl.NumberFormat("en-US", {
            minimumFractionDigits: digits,
            maximumFractionDigits: most,
            signDisplay: "negative",
          }),
        );
      }
      return formats.get(key).format(value).replace("-", "−");
    }

    const UNITS = kt.values.words.units;
    // "fraction of probes", too, as `unit_of` of cards has it
    const isFraction = (unit) => /^fraction( of .*| per year)?$/.test(unit);
    const isRatio = (unit) => /^(annualised )?ratio$|^annualised ratio over /.test(unit);

    /** How figures of a unit are written. */
    function unitOf(unit) {
      const name = String(unit || "").toLowerCase();
      if (Object.hasOwn(UNITS, name)) return UNITS[name];
      if (isFraction(unit)) return UNITS.fraction;
      const annualised = UNITS["annualised ratio"];
      if (name.startsWith("annualised ratio over ")) {
        const base = name.slice("annualised ratio ".length);
        return {...annualised, shown: `${annualised.shown}, ${base}`};
      }
      return {...UNITS.other, shown: unit || ""};
    }

    function decimalsOf({before, decimals}, figure) {
      if (before) {
        if (figure === 0) return 0;
        return Math.abs(figure) < 1 ? decimals : 2; // cents are too coarse below a dollar
      }
      if (decimals === 0 && !Number.isInteger(figure)) return 1;
      return decimals;
    }

    function value(figure, unit, {signed = false, bare = false, digits = null} = {}) {
      if (!known(figure)) return NONE;
      const {before = "", shown = "", factor = 1, decimals} = unitOf(unit);
      const scaled = figure * factor;
      const text = number(scaled, digits ?? decimalsOf({before, decimals}, scaled), signed);
      if (bare) return text;
      const after = shown ? NARROW + shown : "";
      return `${before}${text}${after}`;
    }

    function cell(figure, unit, reason, options) {
      if (known(figure)) return document.createTextNode(value(figure, unit, options));
      return el(
        "span.none",
        {title: reason || "not defined"},
        NONE,
        el("span.unseen", ` ${reason || "not defined"}`),
      );
    }

    const format = {
      NONE,
      value,
      cell,
      number,
      quantity,
      count: (figure) => number(figure, 0),
      percent: (fraction, digits = 2, signed = false) =>
        value(fraction, "fraction", {digits, signed}),
      range: (low, high, unit, options) =>
        `${value(low, unit, {...options, bare: true})} … ${value(high, unit, options)}`,
      unit: (unit) => unitOf(unit).before || unitOf(unit).shown || "",
      hasSign: (unit) => isFraction(unit) || isRatio(unit),
      short: (id) => String(id || "").slice(0, 10),
      list: (items) => (items || []).join(", "),
      /**
       * What low and high of some figures are, of the kinds that they have: a median of several
       * episodes has no interval.
       */
      bounds: (kinds) => {
        const quartiles = kinds.filter((kind) => kind === "interquartile").length;
        return !quartiles
          ? "Interval"
          : quartiles === kinds.filter(Boolean).length
            ? "Interquartile range"
            : "Quartiles or interval";
      },
      tie: (group) => (group <= 26 ? String.fromCharCode(64 + group) : String(group)),
    };

    /** What stands next to a card's figure: quartiles over episodes, or its own interval. */
    const spread = (figure) =>
      figure.quartiles ? {...figure.quartiles, kind: "interquartile"} : figure.interval || null;

    const plural = (n, one, many = `${one}s`) => `${quantity(n)} ${n === 1 ? one : many}`;

    return {format, known, plural, spread};
  })(),
);

/* Figures that pages show beside each other. Tests are looked up: the board computes them when the
site is built (docs/comparison.md).

kt.stats.median(values)
    middle value; mean of the middle two
kt.stats.nearestToMedian(values)
    index of the value nearest to the median
kt.stats.calibrationError(calibration)
    calibration error (ECE) of all orders of a card, from its bins
kt.stats.shownFigures(entry)
    metrics or scores of a card; those at a year's pace of too few days have no value, and say why
kt.stats.shownFigure(entry, name, figure)
    a figure of an episode or of the benchmark by the same rule
kt.stats.windowDifferences(first, second, metric)
    one difference for each window: the median over seeds
kt.stats.testOf(pairing, tests, other, metric)
    the test of a card against another, from the data `pairs/<division>/…` */
(function () {
  "use strict";
  const kt = (window.kt = window.kt || {});

  function median(values) {
    if (!values.length) return null;
    const sorted = Float64Array.from(values).sort();
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  /**
   * Index of the value nearest to the median; of equally near ones the first, so that none is
   * preferred for being higher or lower.
   */
  function nearestToMedian(values) {
    const middle = median(values);
    const distances = values.map((value) => Math.abs(value - middle));
    // The two in the middle of an even number are equally near but for rounding.
    const room = 1e-12 * Math.max(Math.abs(middle), ...values.map(Math.abs));
    const least = Math.min(...distances);
    return distances.findIndex((distance) => distance <= least + room);
  }

  /** A median over episodes can't stand beside the pool: it may be below what the pool allows. */
  function calibrationError({bins, n}) {
    const gaps = bins.map((bin) => bin.n * Math.abs(bin.accuracy - bin.mean_confidence));
    return gaps.reduce((total, gap) => total + gap, 0) / n;
  }

  /**
   * Figures of two raw cards, first less second, matched on (window, seed); a window's difference
   * is the median over its seeds.
   */
  function windowDifferences(first, second, metric) {
    const key = (episode) => JSON.stringify([episode.window, episode.seed]);
    const others = new Map(second.episodes.map((episode) => [key(episode), episode]));
    const windows = new Map();
    const leftOut = {};
    for (const episode of first.episodes) {
      const other = others.get(key(episode));
      if (!other) continue;
      const [one, two] = [episode.metrics[metric], other.metrics[metric]];
      if (!one || !two || one.value === null || two.value === null) {
        const reason =
          (one && one.value === null && one.reason) ||
          (two && two.value === null && two.reason) ||
          "not computed";
        leftOut[reason] = (leftOut[reason] || 0) + 1;
        continue;
      }
      if (!windows.has(episode.window)) windows.set(episode.window, []);
      windows.get(episode.window).push({
        seed: episode.seed,
        first: one.value,
        second: two.value,
        value: one.value - two.value,
      });
    }
    const order = first.windows.map((window) => window.name).filter((name) => windows.has(name));
    return {
      leftOut,
      rows: order.map((window) => {
        const pairs = windows.get(window);
        return {window, pairs, value: median(pairs.map((pair) => pair.value))};
      }),
    };
  }

  /**
   * `pairing`: the data `pairs/<division>/all`; `tests`: those of the first card, null where the
   * site has none of the pair.
   */
  function testOf(pairing, tests, other, metric) {
    const row = tests?.tests[other]?.[metric];
    const missing =
      `this site tests the best ${pairing.cards.length} cards of a division, ` +
      `baselines included, against each other`;
    const value = (name) => (row ? row[pairing.fields.indexOf(name)] : null);
    const some = (names) => Object.fromEntries(names.map((name) => [name, value(name)]));
    return {
      ranks: {
        ...some(["n", "nonzero", "p", "smallest", "effect", "method"]),
        reason: row ? value("reason") : missing,
      },
      shift: {
        ...some(["value", "low", "high", "confidence"]),
        reason: row ? value("shift_reason") : missing,
      },
      flips: {p: value("flip_p"), blocks: value("blocks"), reason: row ? "no pair" : missing},
      overlap: pairing.overlap && Boolean(row),
    };
  }

  /** The card records what was computed; `entry.hidden` says what its days are too few for. */
  function shownFigure({hidden}, name, figure) {
    const reason = hidden?.[name];
    if (!figure || !reason) return figure;
    return {...figure, value: null, reason, quartiles: null, interval: null};
  }

  function shownFigures(entry) {
    const given = entry.card.metrics || entry.card.scores || {};
    return Object.fromEntries(
      Object.entries(given).map(([name, figure]) => [name, shownFigure(entry, name, figure)]),
    );
  }

  kt.stats = {
    median,
    nearestToMedian,
    calibrationError,
    shownFigure,
    shownFigures,
    windowDifferences,
    testOf,
  };
})();

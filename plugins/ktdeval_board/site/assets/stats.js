/* Paired tests over windows, computed in the reader's browser as `ktdeval compare` computes them (docs/comparison.md).

kt.stats.median(values)                       middle value; mean of the middle two
kt.stats.rankdata(values)                     mid-ranks from 1
kt.stats.exactNull(ranks)                     distribution of a signed-rank sum, every sign pattern equally likely
kt.stats.tabledNull(table)                    the same from the data `pairs/<division>/<scope>`, for windows that share days
kt.stats.signedRank(differences, null)        Wilcoxon signed-rank test (zeros dropped), exact up to 300 pairs
kt.stats.hodgesLehmann(differences, level, null)   shift and its interval
kt.stats.signFlip(differences, blocks)        sign-flip permutation test of the mean, all patterns up to 16 blocks
kt.stats.windowDifferences(first, second, metric)  one difference for each window: the median over seeds
kt.stats.pairedTest(differences, pairing, level)   all of the above, with what shared days allow

What this page can't compute exactly has `p: null` and says why in `reason`; nothing is approximated. */
(function () {
  "use strict";
  const kt = (window.kt = window.kt || {});
  const EXACT_UP_TO = 300; // pairs, as the library has it
  const ENUMERATE_UP_TO = 16; // blocks; beyond, the library samples sign patterns with a generator of its own
  const APART = 0.05; // windows whose correlation by shared days is no more than this are blocks of their own

  /** Sum without rounding of the parts (Shewchuk 1997), so that the order of terms does not matter. */
  function exactSum(values) {
    const partials = [];
    for (let x of values) {
      let kept = 0;
      for (let y of partials) {
        if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
        const high = x + y;
        const low = y - (high - x);
        if (low) partials[kept++] = low;
        x = high;
      }
      partials.length = kept;
      partials.push(x);
    }
    return partials.reduceRight((total, part) => total + part, 0);
  }

  function median(values) {
    if (!values.length) return null;
    const sorted = Float64Array.from(values).sort();
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  function rankdata(values) {
    const order = values.map((value, place) => place).sort((one, other) => values[one] - values[other]);
    const ranks = new Array(values.length);
    for (let start = 0; start < order.length; ) {
      let end = start;
      while (end < order.length && values[order[end]] === values[order[start]]) end++;
      for (let at = start; at < end; at++) ranks[order[at]] = (start + end + 1) / 2;
      start = end;
    }
    return ranks;
  }

  function exactNull(ranks) {
    const doubled = ranks.map((rank) => Math.round(2 * rank));
    const step = doubled.every((unit) => unit % 2 === 0) ? 2 : 1;
    const top = doubled.reduce((total, unit) => total + unit, 0) / step;
    let counts = new Float64Array(top + 1);
    counts[0] = 1;
    for (const unit of doubled) {
      const next = new Float64Array(top + 1);
      const by = unit / step;
      for (let at = 0; at <= top; at++) next[at] = 0.5 * (counts[at] + (at >= by ? counts[at - by] : 0));
      counts = next;
    }
    const support = Array.from(counts, (count, place) => (place * step) / 2);
    return {
      kind: "exact",
      twoSided(statistic) {
        const middle = support[top] / 2;
        const distance = Math.abs(statistic - middle) - 1e-9;
        return Math.min(1, exactSum(counts.filter((count, place) => Math.abs(support[place] - middle) >= distance)));
      },
      tail() {
        let total = 0;
        return Array.from(counts, (count) => Math.min(1, (total += count)));
      },
    };
  }

  /** `table`: {n, statistic: ascending, p: two-sided p of each}. The distribution is symmetric, so its lower half is enough. */
  function tabledNull(table) {
    const top = (table.n * (table.n + 1)) / 2;
    return {
      kind: "simulated",
      n: table.n,
      twoSided(statistic) {
        const lower = Math.min(statistic, top - statistic) + 1e-9;
        let place = 0;
        while (place + 1 < table.statistic.length && table.statistic[place + 1] <= lower) place++;
        return Math.min(1, table.p[place]);
      },
      tail: () => table.p.filter((p, place) => table.statistic[place] < top / 2).map((p) => p / 2),
    };
  }

  function signedRank(differences, given) {
    const n = differences.length;
    const moving = differences.filter((difference) => difference !== 0);
    const result = { n, nonzero: moving.length, positive: 0, negative: 0, effect: null, p: null, smallest: null, method: "exact",
      reason: null };
    if (!n) return { ...result, reason: "no pair" };
    if (!moving.length) return { ...result, p: 1, smallest: 1 };
    const ranks = rankdata(moving.map(Math.abs));
    result.positive = exactSum(ranks.filter((rank, place) => moving[place] > 0));
    result.negative = exactSum(ranks.filter((rank, place) => moving[place] < 0));
    result.effect = (result.positive - result.negative) / (result.positive + result.negative);
    if (!given && moving.length > EXACT_UP_TO) return { ...result, reason: `more than ${EXACT_UP_TO} pairs differ` };
    const distribution = given || exactNull(ranks);
    result.p = distribution.twoSided(result.positive);
    result.smallest = distribution.twoSided(result.positive + result.negative);
    result.method = distribution.kind;
    return result;
  }

  function hodgesLehmann(differences, level = 0.95, given) {
    const n = differences.length;
    const result = { value: null, low: null, high: null, confidence: null, reason: null };
    if (!n) return { ...result, reason: "no pair" };
    const walsh = [];
    for (let one = 0; one < n; one++) for (let other = one; other < n; other++) walsh.push(
      (differences[one] + differences[other]) / 2);
    const sorted = Float64Array.from(walsh).sort();
    result.value = median(sorted) + 0;
    if (!given && n > EXACT_UP_TO) return { ...result, reason: `more than ${EXACT_UP_TO} pairs` };
    const tail = (given || exactNull(differences.map((difference, place) => place + 1))).tail();
    let cut = -1;
    while (cut + 1 < tail.length && tail[cut + 1] <= (1 - level) / 2 + 1e-12) cut++;
    if (cut < 0) {
      const best = Math.max(0, 1 - 2 * tail[0]);
      return { ...result, reason: `${n} pairs give an interval of at most ${+(100 * best).toPrecision(4)} %` };
    }
    return { ...result, low: sorted[cut] + 0, high: sorted[sorted.length - 1 - cut] + 0, confidence: 1 - 2 * tail[cut] };
  }

  function signFlip(differences, blocks) {
    if (!differences.length) return { blocks: 0, p: null, smallest: null, reason: "no pair" };
    const sums = new Map();
    differences.forEach((difference, place) => {
      const block = blocks ? blocks[place] : place;
      sums.set(block, (sums.get(block) || 0) + difference);
    });
    // In the order of the labels, as the library adds them up: equal sums then round equally.
    const moving = [...sums].sort((one, other) => one[0] - other[0]).map((entry) => entry[1]).filter((sum) => sum !== 0);
    const smallest = Math.min(1, 2 ** (1 - sums.size));
    if (!moving.length) return { blocks: sums.size, p: 1, smallest, reason: null };
    if (moving.length > ENUMERATE_UP_TO) {
      return { blocks: sums.size, p: null, smallest,
        reason: `more than ${ENUMERATE_UP_TO} blocks: \`ktdeval compare\` samples them` };
    }
    const slack = 1e-12 * moving.reduce((total, sum) => total + Math.abs(sum), 0);
    const observed = Math.abs(exactSum(moving)) - slack;
    let patterns = Float64Array.of(0);
    for (const sum of moving) {
      const next = new Float64Array(2 * patterns.length);
      patterns.forEach((pattern, place) => {
        next[place] = pattern + sum;
        next[place + patterns.length] = pattern - sum;
      });
      patterns = next;
    }
    const reached = patterns.reduce((count, pattern) => count + (Math.abs(pattern) >= observed), 0);
    return { blocks: sums.size, p: reached / patterns.length, smallest, reason: null };
  }

  /** Figures of two raw cards, first less second, matched on (window, seed); a window's difference is the median over its seeds. */
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
        const reason = (one && one.value === null && one.reason) || (two && two.value === null && two.reason) || "not computed";
        leftOut[reason] = (leftOut[reason] || 0) + 1;
        continue;
      }
      if (!windows.has(episode.window)) windows.set(episode.window, []);
      windows.get(episode.window).push({ seed: episode.seed, first: one.value, second: two.value, value: one.value - two.value });
    }
    const order = first.windows.map((window) => window.name).filter((name) => windows.has(name));
    return {
      leftOut,
      rows: order.map((window) => {
        const pairs = windows.get(window);
        return { window, pairs, value: median(pairs.map((pair) => pair.value)) };
      }),
    };
  }

  /** Labels of windows linked by more than `APART` in common, directly or through others. */
  function blocksOf(correlation) {
    const labels = correlation.map((row, place) => place);
    correlation.forEach((row, one) => {
      for (let other = 0; other < one; other++) {
        if (row[other] > APART) {
          const [from, to] = [labels[one], labels[other]];
          labels.forEach((label, place) => label === from && (labels[place] = to));
        }
      }
    });
    return labels;
  }

  /** The null for some of a pairing's windows: undefined where they share no day, null where it is not in the data. */
  function nullFor(places, pairing) {
    const apart = places.every((one) => places.every((other) => one === other || pairing.correlation[one][other] === 0));
    if (apart) return undefined;
    return pairing.null && places.length === pairing.windows.length ? tabledNull(pairing.null) : null;
  }

  /** `differences`: [{window, value}] of a pairing's windows. `pairing`: the data `pairs/<division>/<scope>`. */
  function pairedTest(differences, pairing, level = 0.95) {
    const names = pairing.windows.map((window) => window.name);
    const places = differences.map((difference) => names.indexOf(difference.window));
    const values = differences.map((difference) => difference.value);
    const moving = nullFor(places.filter((place, at) => values[at] !== 0), pairing);
    const whole = nullFor(places, pairing);
    const missing = "windows share days, and the distribution for the windows that differ is not in the data of this site";
    const ranks = moving === null ? { ...signedRank(values), p: null, smallest: null, reason: missing }
      : signedRank(values, moving);
    const shift = whole === null
      ? { ...hodgesLehmann(values, level), low: null, high: null, confidence: null, reason: missing }
      : hodgesLehmann(values, level, whole);
    const blocks = blocksOf(places.map((one) => places.map((other) => pairing.correlation[one][other])));
    return { ranks, shift, flips: signFlip(values, blocks), overlap: whole !== undefined };
  }

  kt.stats = { exactSum, median, rankdata, exactNull, tabledNull, signedRank, hodgesLehmann, signFlip, windowDifferences, blocksOf,
    pairedTest };
})();

/* The page of a card: everything that stands on it, who submitted it, what the board found, and how
to check it.

Address: #card=ID */
"use strict";

(() => {
  const {el, format, known, plural, section} = kt;
  const {of: table, right} = kt.table;
  const whole = (value) => el("div.whole", kt.tree(value));
  const code = (text) => el("code", text);
  const signed = {signed: true};
  const named = (entries) => entries.map(([name, value]) => [kt.words(name), kt.tree(value)]);

  function erratumItem({date, effect, what, by}) {
    return [el("strong", `Erratum, ${date} (${effect}): `), what, by ? ` — ${by}` : ""];
  }

  function head({entry, board}) {
    const {card, submission, verdict, errata} = entry;
    const rank = entry.ranks.all;
    return [
      el(
        "p",
        kt.tierChip(verdict?.tier || "unchecked"),
        " ",
        entry.labels.map((label) => [kt.labelChip(label), " "]),
      ),
      kt.failedLine(card),
      kt.facts([
        ["Model", kt.modelLink(card.model.name, null, {card: entry.id})],
        ["Agent", card.agent.name],
        [
          "Division",
          entry.division
            ? el("a", {href: kt.address.task(entry.division)}, entry.division)
            : "none of this board",
        ],
        [
          "Rank",
          entry.ranked && rank
            ? [
                kt.rankWords(rank),
                known(rank.alpha_rank) ? `, by selection alpha ${kt.alphaRange(rank)}` : "",
              ]
            : "none",
        ],
        ["Tie group", entry.ranked && known(rank?.tie) ? format.tie(rank.tie) : null],
        ["Could know the market", entry.knowledge || null],
        ["Anchored", entry.anchored || null],
        [
          "Ranked as blinded",
          entry.registered_before &&
            "the board registered what its program consists of on " +
              `${entry.registered_before}, before all windows`,
        ],
        ["Submitted", `${submission.submitted_on} by ${submission.submitter.name}`],
        [
          "Market",
          card.snapshot
            ? `${card.snapshot.name}${card.snapshot.synthetic ? " (synthetic)" : ""}`
            : null,
        ],
        ["Board", board.title],
      ]),
      entry.why.length
        ? el("div.trouble", el("strong", "Why it has no rank"), kt.listed("ul", entry.why))
        : null,
      kt.listed("ul.errata", errata.map(erratumItem)),
      el("p.quiet", "Card id ", code(entry.id)),
    ];
  }

  // -- figures

  const spread = (metric) => {
    const ends = kt.spread(metric);
    if (!ends || !known(ends.low)) return kt.format.NONE;
    return format.range(ends.low, ends.high, metric.unit);
  };

  const bounds = (metrics) => format.bounds(metrics.map((metric) => kt.spread(metric)?.kind));

  function metricsSection({entry, board}) {
    const {card} = entry;
    const scoring = card.kind === "scoring";
    const given = kt.stats.shownFigures(entry);
    const columns =
      board.divisions.find((division) => division.id === entry.division)?.columns || [];
    const names = scoring
      ? card.score_order
      : [...new Set([...columns, ...Object.keys(given)])].filter((name) =>
          Object.hasOwn(given, name),
        );
    const title = (name) => board.metrics[name]?.title || kt.words(name);
    const undefinedIn = (metric) =>
      Object.entries(metric.undefined || {})
        .map(([reason, count]) => `${count}: ${reason}`)
        .join("; ");
    const formula = (metric) =>
      el(
        "span.small-text.formula",
        code(metric.formula),
        ` ${metric.source}`,
        undefinedIn(metric) ? el("span.quiet", ` Undefined in ${undefinedIn(metric)}`) : null,
      );
    const metrics = names.map((name) => ({
      ...given[name],
      name,
      unit: board.metrics[name]?.unit || given[name].unit,
    }));
    const tableOf = (caption, some) =>
      table(
        caption,
        some,
        [
          [
            "Figure",
            ({name}) => el("span", {title: board.metrics[name]?.description}, title(name)),
          ],
          [right("Value"), ({value, unit, reason}) => format.cell(value, unit, reason)],
          [right(bounds(metrics)), spread],
          scoring && [
            right("Chance"),
            ({baseline, unit}) => format.cell(baseline, unit, "not defined"),
          ],
          [right("n"), ({n}) => format.count(n)],
          ["Better", ({better}) => better || "neither"],
          ["Formula and source", formula],
        ],
        {showCaption: true},
      );
    const further = metrics.filter(({headline}) => headline === false);
    return section(
      scoring ? "Scores" : "Figures",
      el(
        "p.quiet",
        scoring
          ? "Made of all answers of the finished episodes together."
          : `Medians over finished episodes, by the metric rules “${card.rules}”. A figure that ` +
              `is not defined is “–” and says why.`,
      ),
      tableOf(
        "Headline figures",
        metrics.filter(({headline}) => headline === true),
      ),
      metrics.some(({headline}) => !headline) ? tableOf("Further figures", further) : null,
    );
  }

  /**
   * A window's name, whose days are not broken: 2024-03-01:2024-03-20 goes on in the next line
   * after the colon.
   */
  const windowName = (name) =>
    name.length > 24
      ? name
      : name
          .split(/(?<=:)/)
          .flatMap((part, at) => [...(at ? [el("wbr")] : []), el("span.nb", part)]);

  function episodesSection({entry, board}) {
    const {card} = entry;
    const shown = [
      "total_return",
      "selection_alpha",
      "sharpe",
      "max_drawdown",
      "turnover",
      "ece",
    ].filter((name) => card.metrics?.[name]);
    const trading = card.kind !== "scoring";
    const decided = (episode) =>
      (episode.decisions.model || 0) + (episode.decisions.model_after_retry || 0);
    const days = (episode) => el("span.nb", `${episode.first_day} to ${episode.last_day}`);
    const figure = (name) => (episode) => {
      const found = kt.stats.shownFigure(entry, name, episode.metrics[name]);
      return format.cell(found?.value ?? null, card.metrics[name].unit, found?.reason);
    };
    const lastNav = ({final_nav_minor: nav}) =>
      format.number(nav / card.snapshot.minor_per_unit, 0);
    const missing = card.missing_episodes || [];
    return section(
      "Episodes",
      table("Episodes", card.episodes, [
        card.windows && ["Window", ({window}) => windowName(window)],
        [right("Seed"), ({seed}) => format.count(seed)],
        trading && ["Days", days],
        [right("Steps"), ({steps}) => format.count(steps)],
        [
          right("Decided", "Steps that the model decided"),
          (episode) => format.count(decided(episode)),
        ],
        ...shown.map((name) => [right(board.metrics[name]?.title || kt.words(name)), figure(name)]),
        trading && [right(`Last NAV, ${card.snapshot.currency}`), lastNav],
        ["Id", ({id}) => code(format.short(id))],
      ]),
      missing.length
        ? [el("h3", plural(missing.length, "missing episode")), kt.listed("ul", missing.map(whole))]
        : null,
    );
  }

  function referenceSection({entry}) {
    const {card} = entry;
    const reference = card.reference?.benchmark_buy_and_hold;
    if (!reference) return null;
    if (card.snapshot.benchmark === "none")
      return section("Benchmark", el("p.quiet", "The market has no index."));
    const figure =
      (name, unit) =>
      ([, {metrics}]) => {
        const found = kt.stats.shownFigure(entry, name, metrics[name]);
        return format.cell(found?.value ?? null, unit, found?.reason);
      };
    return section(
      "Benchmark",
      el(
        "p.quiet",
        `${card.snapshot.benchmark_name} (${card.snapshot.benchmark}) bought at the close of the ` +
          `base day and held, without costs.`,
      ),
      table("Benchmark by window", Object.entries(reference), [
        ["Window", ([window]) => windowName(window)],
        ["Base day", ([, {base_day: day}]) => el("span.nb", day)],
        ["Last day", ([, {last_day: day}]) => el("span.nb", day)],
        [right("Total return"), figure("total_return", "fraction")],
        [right("Sharpe"), figure("sharpe", "ratio")],
        [right("Drawdown"), figure("max_drawdown", "fraction")],
      ]),
    );
  }

  function attributionSection({entry: {card}}) {
    if (!card.attribution) return null;
    const lines = card.attribution.value?.lines;
    if (!lines) return section("Attribution", el("p.quiet", card.attribution.reason));
    return section(
      "Attribution",
      el(
        "p.quiet",
        "Linked contributions to the total return; medians over episodes. Charts are on the " +
          "model page.",
      ),
      table("Attribution", Object.entries(lines), [
        ["Line", ([name]) => name],
        [
          right("Contribution"),
          ([, line]) => format.cell(line.value, "fraction", line.reason, signed),
        ],
        [right(bounds(Object.values(lines))), ([, line]) => spread({...line, unit: "fraction"})],
        [right("n"), ([, line]) => format.count(line.n)],
      ]),
    );
  }

  function calibrationSection({entry: {card}}) {
    if (!card.calibration) return null;
    const {bins, n, no_fill: unfilled, no_next_open: unopened} = card.calibration;
    return section(
      "Calibration",
      el(
        "p.quiet",
        `${plural(n, "order")} with an outcome; ${format.count(unfilled)} without a fill and ` +
          `${format.count(unopened)} without a next open are left out.`,
      ),
      n
        ? table(
            "Reliability bins",
            bins.filter((bin) => bin.n),
            [
              ["Stated confidence", (bin) => `${bin.low} to ${bin.high}`],
              [right("Orders"), (bin) => format.count(bin.n)],
              [right("Mean confidence"), (bin) => format.number(bin.mean_confidence, 3)],
              [right("Came out right"), (bin) => format.percent(bin.accuracy, 1)],
            ],
          )
        : null,
    );
  }

  function correlationSection({entry: {card}}) {
    const found = card.rank_correlation;
    if (!found) return null;
    if (found.value === null)
      return section("Holdings and next returns", el("p.quiet", `Not defined: ${found.reason}.`));

    const {value, over, days, interval, floor} = found;
    const shown = [value, interval.low, interval.high, floor].map((one) => format.number(one, 3));
    return section(
      "Holdings and next returns",
      el(
        "p",
        `Rank correlation of holdings with the returns to the next fills, over ${over}: ${shown[0]} ` +
          `(95 % interval ${shown[1]} to ${shown[2]}, ${plural(days, "day")}; above ${shown[3]} at 99.999 %).`,
      ),
    );
  }

  // -- how it was made

  function conditionsSection({entry: {card}}) {
    const {task, snapshot, call, sent_as: sentAs, certificate, drift} = card;
    return section(
      "How it was made",
      el("h3", "Task"),
      kt.facts([
        ["Name", task.name],
        ["Version", task.version],
        ["Mask", [task.mask, kt.maskWords(task.mask)].filter(Boolean).join(": ")],
        ["Mode", [kt.words(task.mode || ""), kt.modeWords(task.mode)].filter(Boolean).join(": ")],
        ["Config", code(task.hash)],
        ["Mask key", card.mask_key ? code(card.mask_key) : null],
        ["Seeds", format.list(card.seeds)],
        ["Limit", card.limit === null ? "none: whole episodes" : `${card.limit} steps`],
      ]),
      kt.details("The task's whole config", whole(task.config)),
      card.windows
        ? [
            el("h3", "Windows"),
            table("Windows", card.windows, [
              ["Window", ({name}) => name],
              ["First day", ({first}) => first],
              ["Last day", ({last}) => last],
              [right("Days"), ({days}) => format.count(days)],
            ]),
          ]
        : null,
      el("h3", "Model and calls"),
      kt.facts([
        ["Model", card.model.name],
        ...named(Object.entries(card.model.args || {})),
        ["Agent", card.agent.name],
        ...named(Object.entries(card.agent.args || {})),
        ...named(Object.entries(call || {})),
      ]),
      sentAs ? kt.details("How the provider takes these calls", whole(sentAs)) : null,
      snapshot
        ? [
            el("h3", "Market"),
            kt.facts(
              Object.entries(snapshot)
                .filter(([name]) => name !== "repairs")
                .map(([name, value]) => [
                  kt.words(name),
                  name === "id" ? code(value) : kt.tree(value),
                ]),
            ),
          ]
        : null,
      snapshot?.repairs?.length
        ? kt.details(plural(snapshot.repairs.length, "repair"), whole(snapshot.repairs))
        : null,
      certificate === undefined
        ? null
        : [
            el("h3", "Mask certificate"),
            certificate.value
              ? whole(certificate.value)
              : el("p.quiet", `None: ${certificate.reason}.`),
          ],
      drift
        ? [
            el("h3", "Drift"),
            known(drift.value) ? whole(drift) : el("p.quiet", `Not measured: ${drift.reason}.`),
          ]
        : null,
    );
  }

  /** Turns of a team's roles, and those without an answer; null without a team. */
  function turnsOf({roles = []}) {
    const sum = (field) => roles.reduce((total, role) => total + (role[field] || 0), 0);
    return sum("turns") ? {turns: sum("turns"), without_an_answer: sum("silent")} : null;
  }

  function conductSection({entry: {card}}) {
    const counts = (title, values, labelOf = kt.words) => {
      if (!values || !Object.keys(values).length) return null;
      const numbers = Object.entries(values).filter(([, value]) => typeof value === "number");
      const facts = numbers.map(([name, value]) => [labelOf(name), format.count(value)]);
      return el("div", el("h3", title), kt.facts(facts));
    };
    const decider = (name) => kt.kindLabel("provenance", name);
    const failure = (name) => kt.kindLabel("failures", name);
    const {cost} = card,
      calls = card.provenance?.calls;
    const replies = calls && {
      answered: calls.answered,
      from_the_cache: calls.cached,
      given_again: calls.repeated,
      in_no_transcript: calls.unused,
    };
    return section(
      "Conduct, usage and cost",
      el(
        "div.columns",
        counts("Coverage", card.coverage),
        counts("Who decided", card.decisions, decider),
        counts("Failures", card.failures, failure) ||
          el("div", el("h3", "Failures"), el("p.quiet", "None.")),
        counts("Orders", card.orders),
        counts("Trading rules that rejected or cut", card.orders?.rules),
        counts("Turns of roles", turnsOf(card)),
        counts("Usage", card.usage),
        counts("Replies", replies),
        el(
          "div",
          el("h3", "Cost"),
          kt.facts([
            ["of the run", format.cell(cost.value, "usd", cost.reason)],
            [
              "of an episode",
              format.cell(cost.per_episode?.value ?? null, "usd", cost.per_episode?.reason),
            ],
            [
              "return for a dollar",
              cost.return_per_usd
                ? format.cell(cost.return_per_usd.value, "fraction", cost.return_per_usd.reason, {
                    signed: true,
                    digits: 3,
                  })
                : null,
            ],
          ]),
          cost.price ? kt.details("Price, US dollars a million tokens", whole(cost.price)) : null,
        ),
      ),
    );
  }

  // -- who says so

  function evidenceFacts({evidence}) {
    const why = evidence.why.length
      ? `${evidence.kind}: ${evidence.why.join("; ")}`
      : evidence.kind;
    return [
      ["Evidence", why],
      ["Registered question", evidence.question],
      ["Answer", evidence.answer],
    ].filter(([, words]) => words);
  }

  function keyFacts({card, registration}) {
    if (!card.mask_key) return [];
    if (!registration) return [["Mask key", "the submitter's own"]];
    const id = el(
      "a",
      {href: "registrations.html", title: registration.id},
      format.short(registration.id),
    );
    return [
      ["Registration", id],
      ["Registered on", registration.registered_on],
      ["Registered by", registration.submitter],
      ["Mask key drawn on", registration.drawn_on || "not drawn"],
    ];
  }

  function submissionSection({entry}) {
    const {card, submission} = entry;
    const {submitter, model, agent, attempts} = submission;
    const link = (address) =>
      address ? el("a", {href: address, rel: "noopener nofollow"}, address) : null;
    const contact = submitter.contact.startsWith("https://")
      ? link(submitter.contact)
      : el("a", {href: `mailto:${submitter.contact}`}, submitter.contact);
    return section(
      "Submission",
      kt.facts([
        ["Submitter", submitter.name],
        ["Organisation", submitter.organisation],
        ["Signed by", entry.card_signed_by.join(", ") || null],
        ["Contact", contact],
        ["Address", link(submitter.url)],
        ["Submitted on", submission.submitted_on],
        ["Training data end", kt.cutoffWord(model.cutoff_date)],
        ["Source of that", model.cutoff_source],
        ["Days to it, by the card", kt.sidesWords(card)],
        ["Model released on", model.released_on],
        [
          "Weights",
          model.open_weights === true ? "open" : model.open_weights === false ? "closed" : null,
        ],
        ["Model's page", link(model.url)],
        ["Strategy", agent.strategy],
        ["Agent's page", link(agent.url)],
        ["Runs made", `${format.count(attempts.runs)}${attempts.note ? `: ${attempts.note}` : ""}`],
        [
          "Attempts that count",
          entry.attempts > attempts.runs ? format.count(entry.attempts) : null,
        ],
        ["Note", submission.note],
        ...keyFacts(entry),
        ...evidenceFacts(entry),
      ]),
      el(
        "p.quiet",
        "The submitter states that the records are those of one run as it was made, chosen " +
          "before its result was known.",
      ),
    );
  }

  function verdictSection({entry: {verdict, signed_by: signers}}) {
    if (!verdict)
      return section(
        "What the board found",
        el("p.quiet", kt.values.words.tiers.unchecked.meaning),
      );
    const {rerun} = verdict;
    return section(
      "What the board found",
      el("p", kt.tierChip(verdict.tier), ` ${kt.values.words.tiers[verdict.tier]?.meaning || ""}`),
      kt.facts([
        ["Checked on", verdict.checked_on],
        ["Signed by", signers.join(", ") || "nobody"],
        ["With version", verdict.suite_version],
        ["Episodes executed again", format.count(verdict.episodes)],
        ["Steps executed again", format.count(verdict.steps)],
      ]),
      kt.listed("ul.notes", verdict.notes),
      rerun
        ? [
            el("h3", `Run again by ${rerun.by}, ${rerun.on}`),
            table("Submitted and run again", Object.entries(rerun.figures), [
              ["Figure", ([name]) => kt.words(name)],
              [right("Submitted"), ([, pair]) => format.cell(pair.submitted, "", "not defined")],
              [right("Run again"), ([, pair]) => format.cell(pair.rerun, "", "not defined")],
            ]),
            el("p.quiet", "Card of that run: ", code(rerun.card)),
          ]
        : null,
    );
  }

  function verifySection({entry, board}) {
    const records = Object.entries(entry.card.artefacts);
    return section(
      "How to verify it",
      el(
        "p",
        "In a copy of the board's repository",
        board.contact ? ` (ask ${board.contact} where it is)` : "",
        ":",
      ),
      kt.command([
        `sha256sum ${entry.path}`,
        `ktdeval card verify --card-only ${entry.path}`,
        `ktdeval leaderboard check . --card ${entry.id} --no-record`,
      ]),
      el(
        "p.quiet",
        "The first gives the card's id. The second holds the card against its schema and against " +
          "itself. The " +
          "third executes the recorded decisions again on the board's own market and compares " +
          "every figure; " +
          "it runs nothing of the submission, and it proves that the figures follow from those " +
          "replies, not who gave them.",
      ),
      kt.details(
        `${plural(records.length, "record")} and their SHA-256`,
        table("Records", records, [
          ["File of the run", ([path]) => path],
          ["SHA-256", ([, hash]) => code(hash)],
        ]),
      ),
    );
  }

  function rawSection({entry}) {
    const download = async () =>
      kt.download(`${entry.id}.json`, await kt.cardText(entry.id), "application/json");
    const raw = el("pre.raw", {
      tabindex: "0",
      role: "group",
      "aria-label": "Raw JSON of the card",
    });
    const fold = kt.details("Raw JSON of the card", raw);
    fold.addEventListener("toggle", () => {
      if (fold.open && !raw.firstChild) raw.append(JSON.stringify(entry.card, null, 1));
    });
    return section(
      "Raw data",
      el(
        "p",
        kt.button(`${format.short(entry.id)}….json`, download, {class: "small"}),
        " downloads the card's file as submitted, byte for byte. In the repository: ",
        code(entry.path),
      ),
      fold,
      kt.details("Provenance", whole(entry.card.provenance)),
    );
  }

  kt.page(async (main) => {
    const show = async () => {
      const id = kt.state.get("card");
      if (!/^[0-9a-f]{64}$/.test(id))
        throw new Error(
          "The address names no card: it ends in #card= and a card's id of 64 hexadecimal " +
            "digits. Cards are found from the board",
        );
      const [board, entry] = await Promise.all([kt.load("board"), kt.load(`card/${id}`)]);
      // A market is described by the board that opened it, never by a card.
      if (entry.market) Object.assign(entry.card.snapshot, entry.market);
      // Costs are at the board's prices, where it has them.
      if (entry.cost) entry.card.cost = entry.cost;
      const view = {board, entry};
      const title = `${entry.card.model.name}, ${entry.card.agent.name}`;
      kt.byId("title").textContent = `Result card: ${title}`;
      document.title = `${title}: result card · ${board.title}`;
      kt.replace(
        main,
        head(view),
        metricsSection(view),
        episodesSection(view),
        referenceSection(view),
        attributionSection(view),
        calibrationSection(view),
        correlationSection(view),
        conductSection(view),
        conditionsSection(view),
        submissionSection(view),
        verdictSection(view),
        verifySection(view),
        rawSection(view),
      );
    };
    kt.state.onChange(() => show().catch(kt.fail));
    await show();
  });
})();

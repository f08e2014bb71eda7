// Health page: coverage as a calendar, freshness, probes, checks, news, economic calendar.
"use strict";

(() => {
  const {el, svg, field, replace, section, facts, button, details} = kt;
  const {answerTo, ask, show, trouble, table} = pages;
  const CELL = 12;
  const LEFT = 26;
  const WEEK_DAYS = ["Mon", "", "Wed", "", "Fri", "", ""];
  const DAY_MS = 86400000;

  const percent = (share) => (share === null ? "—" : `${(100 * share).toFixed(share < 1 ? 2 : 0)} %`);
  const count = (number) => number.toLocaleString("en-US");

  // -- calendar heat map

  function kindOf(group, place) {
    const have = group.have[place];
    const due = group.due[place];
    if (group.outside && !group.sessions.has(place)) return "extra";
    if (have === 0) return "gap";
    return have < due ? "part" : "full";
  }

  const WORDS = {
    full: "all instruments",
    part: "some instruments missing",
    gap: "no data",
    extra: "data on a day without a session",
  };

  function yearMap(group, year, places) {
    const first = Date.UTC(year, 0, 1);
    const shift = (new Date(first).getUTCDay() + 6) % 7;
    const counts = {full: 0, part: 0, gap: 0, extra: 0};
    const cells = places.map((place) => {
      const day = Math.round((Date.parse(group.days[place]) - first) / DAY_MS) + shift;
      const kind = kindOf(group, place);
      counts[kind] += 1;
      return svg(
        "rect",
        {
          class: kind,
          x: LEFT + Math.floor(day / 7) * CELL,
          y: 2 + (day % 7) * CELL,
          width: CELL - 2,
          height: CELL - 2,
          rx: 2,
        },
        svg(
          "title",
          {},
          `${group.days[place]}: ${group.have[place]} of ${group.due[place]} instruments`,
        ),
      );
    });
    const told = Object.keys(counts)
      .filter((kind) => counts[kind])
      .map((kind) => `${counts[kind]} days ${WORDS[kind]}`);
    return kt.scroller(
      `${group.name}, ${year}`,
      svg(
        "svg",
        {
          class: "heat",
          viewBox: `0 0 ${LEFT + 54 * CELL} ${7 * CELL + 4}`,
          role: "img",
          "aria-label": `${group.name}, ${year}: ${told.join(", ")}`,
        },
        WEEK_DAYS.map((name, row) => svg("text", {x: 0, y: 11 + row * CELL}, name)),
        cells,
      ),
    );
  }

  function key() {
    return el(
      "ul.key",
      {"aria-label": "Colours"},
      Object.entries(WORDS).map(([kind, words]) =>
        el(
          "li",
          {},
          svg("svg", {class: "heat", viewBox: "0 0 10 10", "aria-hidden": "true"}, svg("rect", {class: kind, width: 10, height: 10, rx: 2})),
          words,
        ),
      ),
    );
  }

  /** Places of days that are sessions: days that are due, or that an outside day is not. */
  function prepared(group) {
    group.sessions = new Set(group.session_places);
    return group;
  }

  function groupMaps(group) {
    const years = new Map();
    group.days.forEach((day, place) => {
      const year = Number(day.slice(0, 4));
      if (!years.has(year)) years.set(year, []);
      years.get(year).push(place);
    });
    return [...years].map(([year, places]) => el("div", {}, el("h3", {}, `${group.name}, ${year}`), yearMap(group, year, places)));
  }

  function gapsOf(group) {
    if (!group.gaps.length) return el("p.quiet", {}, "No session without data.");
    return table(
      `${group.name}: sessions without data`,
      ["from", "to", "sessions"],
      group.gaps.map((gap) => [gap.first, gap.last, gap.sessions]),
    );
  }

  function groupBlock(group) {
    const calendar = group.guessed ? `${group.calendar} (fits best)` : group.calendar;
    return details(
      `${group.name}: ${group.first} … ${group.last}, ${percent(group.complete)}`,
      facts([
        ["calendar", calendar],
        ["instruments", count(group.instruments)],
        ["days with data on no session", group.outside || null],
      ]),
      groupMaps(prepared(group)),
      gapsOf(group),
    );
  }

  // -- folders

  function folderSection(folder, number) {
    const problems = folder.problems.length
      ? el("div.trouble", {}, el("p", {}, `${count(folder.problems.length + folder.more_problems)} problems:`), el("ul", {}, folder.problems.map((line) => el("li", {}, line))))
      : null;
    const groups = folder.groups.map(groupBlock);
    if (groups.length && number === 0) groups[groups.length - 1].open = true;
    return section(
      `${folder.name}: ${folder.kind}`,
      facts([
        ["folder", folder.path],
        ["files", count(folder.files)],
        ["size", `${(folder.bytes / 1e6).toFixed(1)} MB`],
        ["id", folder.content_id.slice(0, 16)],
      ]),
      problems,
      folder.groups.length ? table(`Coverage of ${folder.name}`, ["data", "calendar", "instruments", "first", "last", "complete", "gaps"], folder.groups.map((group) => [group.name, group.calendar, count(group.instruments), group.first, group.last, percent(group.complete), group.gaps.length])) : el("p.empty", {}, "No bars or dated files here."),
      folder.groups.length ? key() : null,
      groups,
      folder.kind.includes("dataset") ? sanity(number) : null,
    );
  }

  function sanity(number) {
    const place = el("div", {"aria-live": "polite"});
    const draw = (check) => {
      if (check.state === "done" || check.state === "failed")
        replace(
          place,
          el("p", {}, check.findings.length ? `${check.errors} errors, ${check.warnings} warnings` : "Sound: no finding."),
          check.findings.length ? el("ul", {}, check.findings.map((line) => el("li", {}, line))) : null,
        );
      else replace(place, el("p.quiet", {}, "Reading the whole dataset …"));
      return check.state === "running";
    };
    const run = async () => {
      try {
        let check = await ask("/health/check", {folder: number});
        while (draw(check)) {
          await new Promise((done) => window.setTimeout(done, 300));
          check = await ask(`/health/check?folder=${number}`);
        }
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    return el("div", {}, el("h3", {}, "Sanity check"), button("Check the whole dataset", run, {class: "small"}), place);
  }

  // -- components

  function components() {
    const place = el("div", {"aria-live": "polite"});
    const draw = async () => {
      replace(place, el("p.quiet", {}, "Calling …"));
      try {
        const probes = await ask("/health/probes");
        replace(
          place,
          table(
            "Components",
            ["component", "state", "call", "latency"],
            probes.map((probe) => [
              probe.component,
              probe.ok ? kt.chip("answers", "good") : [kt.chip("fails", "bad"), " ", probe.message],
              el("code", {}, probe.call),
              `${probe.latency_ms.toFixed(1)} ms`,
            ]),
          ),
        );
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    draw();
    return section("Components", place, button("Call again", draw, {class: "small"}));
  }

  function freshness(ages) {
    if (!ages.length) return null;
    return section(
      "Freshness",
      table(
        "Freshness",
        ["data", "dataset", "last day", "sessions behind today"],
        ages.map((age) => [age.group, age.dataset, age.last, age.note || (age.sessions_behind === null ? "—" : count(age.sessions_behind))]),
      ),
    );
  }

  // -- news and calendar

  const TEXT = {type: "text", autocomplete: "off", maxlength: "200"};

  function form(controls, submit) {
    return el("form.row", {submit: (event) => (event.preventDefault(), submit())}, controls, el("button.small", {type: "submit"}, "Search"));
  }

  function news() {
    const words = el("input", TEXT);
    const place = el("div", {"aria-live": "polite"});
    const search = async () => {
      try {
        const found = await ask(`/health/news?${new URLSearchParams({q: words.value})}`);
        replace(
          place,
          found.events.length
            ? table("Articles", ["published", "title", "tickers", "source"], found.events.map((one) => [one.time_utc, one.title, one.tickers.join(" "), one.source]))
            : el("p.empty", {}, "No article has all of these words."),
        );
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    return section("News", form([field("Words in title or text", words, ".wide")], search), place);
  }

  function calendar(last) {
    const start = el("input", {...TEXT, value: `${last.slice(0, 7)}-01`, placeholder: "2025-01-01"});
    const end = el("input", {...TEXT, value: last, placeholder: "2025-01-31"});
    const place = el("div", {"aria-live": "polite"});
    const query = (form) => `/health/calendar?${new URLSearchParams({start: start.value, end: end.value, format: form})}`;
    const search = async () => {
      try {
        const events = await ask(query("json"));
        replace(
          place,
          table("Economic calendar", ["time (UTC)", "release", "importance", "outcome"], events.slice(0, 200).map((one) => [one.time_utc, one.title, one.importance, one.snippet])),
          events.length > 200 ? el("p.quiet", {}, `The first 200 of ${count(events.length)}; the export has all.`) : null,
        );
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    const save = (form, type) => async () => {
      try {
        const answer = await answerTo(query(form));
        kt.download(`economic-calendar.${form}`, await answer.text(), type);
      } catch (error) {
        replace(place, trouble(error));
      }
    };
    return section(
      "Economic calendar",
      form([field("First day", start), field("Last day", end)], search),
      el("div.row", {}, button("Export as CSV", save("csv", "text/csv"), {class: "small"}), button("Export as ICS", save("ics", "text/calendar"), {class: "small"})),
      place,
    );
  }

  document.addEventListener("DOMContentLoaded", () =>
    show(async () => {
      const report = await ask("/health/report");
      return [
        el("h1", {}, "Health of data and services"),
        components(),
        report.folders.map(folderSection),
        freshness(report.freshness),
        news(),
        calendar(report.as_of_ts.slice(0, 10)),
      ];
    }),
  );
})();

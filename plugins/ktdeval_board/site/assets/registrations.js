// Who registered which system before its mask key was drawn, and what became of it.
"use strict";

(() => {
  const {el, replace, format, plural, section} = kt;

  const STATES = {
    open: ["open", "", "The board has not drawn its key yet."],
    drawn: [
      "not used",
      "warn",
      "Its key was drawn, and no checked card was made under it: whoever signed it has no rank " +
        "in the division, and without a signature whoever submits in this name and with this " +
        "contact.",
    ],
    used: ["used", "good", "A checked card was made under its key."],
  };
  const EXCUSED = [
    "excused",
    "",
    "Maintainers said that its key may stay unused; it counts as an attempt all the same.",
  ];

  function stateChip(row) {
    const [text, kind, words] = row.excuse && row.state !== "used" ? EXCUSED : STATES[row.state];
    return kt.chip(text, kind, words);
  }

  function counted(division, rows) {
    const own = rows.filter((row) => row.division === division.id);
    const count = (state) => own.filter((row) => row.state === state).length;
    return [
      el("a", {href: kt.address.task(division.id)}, kt.words(division.task)),
      format.count(own.length),
      format.count(count("open")),
      format.count(count("drawn")),
      format.count(count("used")),
      format.count(division.seeds.length),
      division.most_registrations === null
        ? "any number"
        : format.count(division.most_registrations),
    ];
  }

  function counts(divisions, rows) {
    const right = (text, title) => ({text, n: true, title});
    return section(
      "By division",
      kt.table.plain({
        caption: "Registrations by division",
        head: [
          "Task",
          right("Registrations", "every one counts as an attempt"),
          right("Open"),
          right("Not used"),
          right("Used"),
          right("Seeds", "each draws handles of its own"),
          right("Most of one submitter"),
        ],
        rows: divisions.map((division) => counted(division, rows)),
      }),
    );
  }

  function all(rows) {
    if (!rows.length) return section("Registrations", el("p", {}, "None so far."));
    const ordered = [...rows].sort((one, other) =>
      one.registered_on < other.registered_on ? 1 : -1,
    );
    return section(
      plural(rows.length, "registration"),
      kt.table.plain({
        caption: "Registrations",
        head: [
          "Registered on",
          "State",
          "Model",
          "Agent",
          "Submitter",
          "Signed",
          "Division",
          "Key drawn on",
          "Card",
          "Registration",
          "Question",
          "Excused",
        ],
        rows: ordered.map((row) => [
          row.registered_on,
          stateChip(row),
          row.model,
          row.agent,
          row.submitter,
          row.signed ? "by the submitter" : "by nobody: the name is a claim",
          row.division,
          row.drawn_on || "",
          row.cards.map((card) => [kt.cardLink(card), " "]),
          el("code", {title: row.id}, format.short(row.id)),
          row.question || "none",
          row.excuse ? `${row.excuse.date}: ${row.excuse.what}` : "",
        ]),
      }),
    );
  }

  kt.page(async (main) => {
    const [board, {registrations}] = await Promise.all([
      kt.load("board"),
      kt.load("registrations"),
    ]);
    replace(
      main,
      el(
        "p.lead",
        {},
        "A mask key can be tried without a model, so nobody chooses one here: a system is " +
          "registered with everything that decides its ",
        "answers, then the board draws the key. Every registration stands here for good and " +
          "counts as an attempt.",
      ),
      counts(
        board.divisions.filter(({keys}) => keys === "registered"),
        registrations,
      ),
      all(registrations),
    );
  });
})();

// Who registered which system before its mask key was drawn, and what became of it.
"use strict";

(() => {
  const {el, replace, format, plural, section} = kt;
  const {right} = kt.table;

  function stateChip({state, excuse}) {
    const shown = excuse && state !== "used" ? "excused" : state;
    return kt.chip(...kt.values.words.registrations[shown]);
  }

  function counts(divisions, rows) {
    const of = (division) => rows.filter((row) => row.division === division.id);
    const count = (state) => (division) =>
      format.count(of(division).filter((row) => row.state === state).length);
    const mostOf = ({most_registrations: most}) =>
      most === null ? "any number" : format.count(most);
    return section(
      "By division",
      kt.table.of("Registrations by division", divisions, [
        ["Task", ({id, task}) => el("a", {href: kt.address.task(id)}, kt.words(task))],
        [
          right("Registrations", "every one counts as an attempt"),
          (division) => format.count(of(division).length),
        ],
        [right("Open"), count("open")],
        [right("Not used"), count("drawn")],
        [right("Used"), count("used")],
        [right("Seeds", "each draws handles of its own"), ({seeds}) => format.count(seeds.length)],
        [right("Most of one submitter"), mostOf],
      ]),
    );
  }

  function all(rows) {
    if (!rows.length) return section("Registrations", el("p", "None so far."));
    const ordered = [...rows].sort((one, other) =>
      one.registered_on < other.registered_on ? 1 : -1,
    );
    return section(
      plural(rows.length, "registration"),
      kt.table.of("Registrations", ordered, [
        ["Registered on", (row) => row.registered_on],
        ["State", stateChip],
        ["Model", (row) => row.model],
        ["Agent", (row) => row.agent],
        ["Submitter", (row) => row.submitter],
        ["Signed", (row) => (row.signed ? "by the submitter" : "by nobody: the name is a claim")],
        ["Division", (row) => row.division],
        ["Key drawn on", (row) => row.drawn_on || ""],
        ["Card", (row) => row.cards.map((card) => [kt.cardLink(card), " "])],
        ["Registration", (row) => el("code", {title: row.id}, format.short(row.id))],
        ["Question", (row) => row.question || "none"],
        ["Excused", ({excuse}) => (excuse ? `${excuse.date}: ${excuse.what}` : "")],
      ]),
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

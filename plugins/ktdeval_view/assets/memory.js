// What the agent remembers after the day: memories by layer with what became of each, or its JSON
// as a tree.

const MOST_MEMORIES = 2000; // rows of a table; more would make the page slow

class MemoryPanel {
  constructor(view) {
    this.view = view;
  }

  show({layers, fields, rows, rest}) {
    const {names} = this.view;
    const tree = rest && rest !== "{}" ? parseJson(rest) : null;
    const shown = rest && rest !== "{}" ? (tree ? showJson(tree, names) : rest) : null;
    const heading = el("h3", {}, "What the agent remembers after this day");
    if (!layers) return [heading, shown];
    const today = rows.filter(([, , , isShown, note]) => isShown || note);
    return [
      heading,
      this.counts(layers, rows),
      today.length
        ? this.table("Shown in the day's prompt, new, credited, moved or gone", {
            layers,
            fields,
            rows: today,
          })
        : el(
            "p.quiet",
            {},
            "Nothing of it was in the day's prompt, and nothing changed but age and importance.",
          ),
      this.whenOpened(
        `All memories: ${whole(rows.filter((row) => row[4] !== "gone").length)}`,
        () => this.table("All memories, and those gone on this day", {layers, fields, rows}),
      ),
      shown ? this.whenOpened("Everything else in its memory", () => shown) : null,
    ];
  }

  counts(layers, rows) {
    const kept = rows.filter((row) => row[4] !== "gone");
    const number = (what) => rows.filter((row) => what(row[4])).length;
    const facts = layers.map((layer, place) => [
      layer,
      kept.filter((row) => row[0] === place).length,
    ]);
    facts.push(
      ["in the prompt", rows.filter((row) => row[3]).length],
      ["new", number((note) => note === "new")],
    );
    facts.push(
      ["credited", number((note) => note.includes("credited"))],
      ["moved", number((note) => note.includes("→"))],
    );
    facts.push(["gone", number((note) => note === "gone")]);
    return el(
      "dl.summary",
      {},
      facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, whole(value)))),
    );
  }

  /** A part that is made when it is first opened: a memory may have thousands of lines. */
  whenOpened(title, content) {
    const part = el(
      "details",
      {
        toggle: () => {
          if (part.open && part.childElementCount === 1) fill(part, content());
        },
      },
      el("summary", {}, title),
    );
    return part;
  }

  table(title, {layers, fields, rows}) {
    const {names, texts} = this.view;
    const isNumeric = fields.map((_, place) =>
      rows.every((row) => typeof row[5 + place] === "number"),
    );
    const headOf = (name, place) => (isNumeric[place] ? numberHead(name) : name);
    const ordered = [...rows].sort((one, other) => one[0] - other[0]).slice(0, MOST_MEMORIES);
    const body = ordered.map(([layer, text, id, isShown, note, ...values]) =>
      el(
        "tr",
        {},
        el("td", {}, layers[layer]),
        el("th", {scope: "row"}, id),
        el("td", {}, el("span.said.long", {}, names.mark(texts[text]))),
        values.map((value, place) =>
          el(isNumeric[place] ? "td.n" : "td", {}, typeof value === "number" ? quantity(value, 0, 2) : value),
        ),
        el("td", {}, isShown ? "shown" : ""),
        el("td", {}, note.replace("credited -", "credited −")),
      ),
    );
    const left = rows.length - ordered.length;
    return [
      wideTable({
        kind: "memories",
        caption: title,
        head: ["layer", "id", "text", ...fields.map(headOf), "prompt", "this day"],
        rows: body,
      }),
      left ? el("p.quiet", {}, `${whole(left)} further ones are left out here.`) : null,
    ];
  }
}

// The page of a scoring task's episode: samples to choose from, and of the chosen one prompt,
// reply, answer, what was expected, scores.

const OUTCOMES = {right: "right", failed: "failed", unanswered: "unanswered"};
const CHIPS = {right: "good", failed: "bad", unanswered: "warn"};

const shown = (value) => {
  if (value === null || value === undefined) return NONE;
  return typeof value === "number" ? figure(value, Number.isInteger(value) ? 0 : 3) : String(value);
};

class SampleView {
  constructor(head, texts) {
    this.head = head;
    this.rows = head.rows;
    this.names = new Names({handles: [], codes: [], companies: [], sectors: {}, days: [], first_day: 0});
    this.talk = new Talk(this.names, texts, {verbatim: false, unfolded: false});
    this.pieces = new Pieces(head.pieces);
    this.place = -1;
    this.shows = 0;
    this.searches = 0;
    this.found = null; // places that hold the words searched for; null while nothing is searched
    this.items = this.rows.map((row, place) => {
      const kind = Object.values(row.kinds).map(shown).join(" · ");
      const link = el(
        "a",
        {href: `#sample=${place}`},
        el("span.number", {}, place),
        el("span.date", {}, row.sample),
        el("span.amount", {}, kind),
        el(`span.chip.${CHIPS[row.outcome]}`, {}, OUTCOMES[row.outcome]),
      );
      return el("li", {}, link);
    });
    replace(byId("list"), this.items);
    this.makeFilters();
    this.narrow();
  }

  makeFilters() {
    const options = (all, values) => [
      el("option", {value: ""}, all),
      values.map((value) => el("option", {value}, value)),
    ];
    const tally = (outcome) => this.rows.filter((row) => row.outcome === outcome).length;
    replace(
      byId("outcome"),
      el("option", {value: ""}, "all samples"),
      Object.entries(OUTCOMES).map(([value, name]) =>
        el("option", {value}, `${name} (${tally(value)})`),
      ),
    );
    this.kinds = Object.entries(this.head.kinds).map(([name, values]) => {
      const select = el(
        "select",
        {"aria-label": name, "data-kind": name},
        options(`any ${name}`, values),
      );
      select.addEventListener("input", () => this.narrow());
      return [name, select];
    });
    replace(
      byId("kinds"),
      this.kinds.map(([, select]) => select),
    );
    byId("outcome").addEventListener("input", () => this.narrow());
    byId("search").addEventListener("input", () => this.search());
  }

  /** Look for words in everything of each sample, a piece after the other. */
  async search() {
    this.searches += 1;
    const mine = this.searches;
    const words = typedWords("search");
    const has = (packed) => words.every((word) => packed.toLowerCase().includes(word));
    const found = words.length ? await this.pieces.find(has, () => mine !== this.searches) : null;
    if (mine !== this.searches) return; // other words were typed meanwhile
    this.found = found;
    this.narrow();
  }

  narrow() {
    const outcome = byId("outcome").value;
    this.visible = [];
    this.rows.forEach((row, place) => {
      const fits =
        (!outcome || row.outcome === outcome) &&
        (this.found === null || this.found.has(place)) &&
        this.kinds.every(
          ([name, select]) => !select.value || pythonic(row.kinds[name]) === select.value,
        );
      this.items[place].hidden = !fits;
      if (fits) this.visible.push(place);
    });
    replace(byId("matches"), countLeft(this.visible.length, this.rows.length, "sample"));
  }

  step(direction) {
    const near = nextPlace(this.visible, this.place, direction);
    if (near !== null) location.hash = `#sample=${near}`;
  }

  async show(place) {
    if (this.place >= 0) this.items[this.place].firstChild.removeAttribute("aria-current");
    this.place = place;
    this.items[place].firstChild.setAttribute("aria-current", "true");
    this.items[place].scrollIntoView({block: "nearest"});
    const row = this.rows[place];
    replace(
      byId("day-title"),
      `Sample ${place} · ${row.sample} `,
      el(`span.chip.${CHIPS[row.outcome]}`, {}, OUTCOMES[row.outcome]),
    );
    replace(
      byId("day-when"),
      Object.entries(row.kinds)
        .map(([name, value]) => `${name} ${shown(value)}`)
        .join(" · "),
    );
    this.shows += 1;
    const mine = this.shows;
    const sample = await this.pieces.day(place);
    if (mine !== this.shows) return; // another was chosen meanwhile
    const json = (value) =>
      el("div.text", {}, showJson(parseJson(JSON.stringify(value)), this.names));
    const part = (id, title, ...content) => [el("h3", {id: `part-${id}`}, title), content];
    const asked = sample.talk.exchanges.length
      ? sample.talk.exchanges[0].sent.find((message) => message.role === "user")
      : null;
    replace(
      byId("day-body"),
      part(
        "prompt",
        "Prompt",
        asked ? el("blockquote", {}, asked.content) : el("p.quiet", {}, "No prompt is on record."),
      ),
      part(
        "answer",
        "Answer",
        sample.answer
          ? json(sample.answer)
          : el("p.held", {}, `No valid answer: ${row.provenance}`),
        this.failures(row),
      ),
      part(
        "expected",
        "Expected",
        el("p.quiet", {}, "Recorded beside the answer, never shown to the model."),
        json(sample.facts),
      ),
      part("scores", "Scores", this.scores(sample)),
      part("talk", "What was said", this.talk.show(place, sample.talk)),
    );
    byId("day-body").classList.add("laid-out");
    byId("said").textContent = `Sample ${place}, ${row.sample}: ${OUTCOMES[row.outcome]}`;
  }

  failures(row) {
    const found = Object.entries(row.failures).filter(([, number]) => number);
    return found.length
      ? el(
          "p.quiet",
          {},
          `failed on the way: ${found.map(([name, number]) => `${name} ${number}`).join(", ")}`,
        )
      : null;
  }

  scores(sample) {
    const names = Object.keys(sample.scores).sort(
      (one, other) => this.head.scores.includes(other) - this.head.scores.includes(one),
    );
    if (names.length === 0) return el("p.quiet", {}, "There are no scores without an answer.");
    const rows = names.map((name) =>
      el("tr", {}, el("th", {scope: "row"}, name), el("td.n", {}, shown(sample.scores[name]))),
    );
    return scroller(
      "Table: Scores",
      el("table.grid", {}, el("caption.unseen", {}, "Scores"), el("tbody", {}, rows)),
    );
  }

  follow() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    // a call's own link names its sample as it does a day
    const text = wanted.get("sample") ?? wanted.get("day");
    const named = this.rows.findIndex((row) => row.sample === text);
    const place = named >= 0 ? named : Number(text ?? this.visible[0] ?? 0);
    const isKnown = Number.isInteger(place) && place >= 0 && place < this.rows.length;
    byId("trouble").hidden = isKnown;
    replace(
      byId("trouble"),
      isKnown
        ? ""
        : `There is no sample ${text} in this episode; it has samples 0 to ` +
            `${this.rows.length - 1}.`,
    );
    if (isKnown && place !== this.place) this.show(place);
  }
}

/** A fact as the page's filters spell it. */
const pythonic = (value) => (value === true ? "True" : value === false ? "False" : value);

begin(async () => {
  const [head, texts] = await Promise.all(["head", "texts"].map(unpackValue));
  const view = new SampleView(head, texts);
  document.title = `${head.label} · ${head.spec.model}`;
  replace(byId("title"), head.label);
  const facts = [
    head.spec.model,
    `agent ${head.spec.agent}`,
    head.spec.mask && `mask ${head.spec.mask}`,
    count(head.rows.length, "sample"),
  ];
  replace(byId("facts"), facts.filter(Boolean).join(" · "));
  replace(
    byId("notes"),
    head.state === "unfinished" ? label("unfinished", "Not all samples are asked yet.") : null,
    head.notes.map((note) => el("li", {}, note)),
  );
  listenWalk({
    step: (direction) => view.step(direction),
    link: () => view.items[view.place]?.firstChild,
  });
  followAddress(view);
});

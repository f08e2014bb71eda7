// Fields that a reader narrows a view with. Each is {element, set(value)}: pages build them once
// and set them when the address changes, so that focus and open lists stay.
//
// kt.controls.choice({label, options: [[value, text], …], onChange(value)})
//     one of several; it also has options(list), which renews them
// kt.controls.many({label, options: [[value, text], …], onChange([value, …])})
//     any of several, in a list that opens
// kt.controls.check({label, onChange(bool)})
//     a box to tick
// kt.controls.search({label, onInput(text)})
//     words, reported when typing pauses

kt.controls = (() => {
  const {el, field, replace, button, plural} = kt;
  const SHOWN = 200;
  const SEARCHED_FROM = 12;
  const PAUSE_MS = 120;
  let numbered = 0;

  function choice({label, options, onChange}) {
    const list = el("select", {change: () => onChange(list.value)});
    const fillIn = (pairs) =>
      replace(
        list,
        pairs.map(([value, text]) => el("option", {value}, text)),
      );
    fillIn(options);
    return {
      element: field(label, list),
      options: fillIn,
      set: (value) => {
        list.value = value;
      },
    };
  }

  function check({label, onChange, title}) {
    const box = el("input", {type: "checkbox", change: () => onChange(box.checked)});
    return {
      element: el("label.tick", {title}, box, " ", label),
      set: (value) => {
        box.checked = value;
      },
    };
  }

  function search({label, onInput}) {
    let timer = 0;
    const box = el("input", {
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      input: () => {
        window.clearTimeout(timer);
        timer = window.setTimeout(() => onInput(box.value.trim()), PAUSE_MS);
      },
    });
    return {
      element: field(label, box, ".grow"),
      set: (value) => {
        if (document.activeElement !== box) box.value = value;
      },
    };
  }

  /** The inside of a list that opens: boxes, and above them a search where there are many. */
  function boxes(options, chosen, report) {
    const name = `many-${(numbered += 1)}`;
    const list = el("div.boxes");
    const draw = (wanted) => {
      const found = options.filter(([value, text]) =>
        `${value} ${text}`.toLowerCase().includes(wanted),
      );
      found.sort((one, other) => chosen.has(other[0]) - chosen.has(one[0]));
      replace(
        list,
        found.slice(0, SHOWN).map(([value, text]) => {
          const box = el("input", {
            type: "checkbox",
            name,
            value,
            checked: chosen.has(value),
            change: () => {
              chosen[box.checked ? "add" : "delete"](value);
              report();
            },
          });
          return el("label.tick", box, " ", text);
        }),
        found.length > SHOWN
          ? el(
              "p.quiet",
              `${plural(found.length - SHOWN, "more entry", "more entries")}: type to find them`,
            )
          : null,
        found.length ? null : el("p.quiet", "No entry with that name"),
      );
    };
    const field = el("input", {
      type: "search",
      "aria-label": "Find in this list",
      placeholder: "find",
      input: () => draw(field.value.trim().toLowerCase()),
    });
    draw("");
    return [options.length >= SEARCHED_FROM ? field : null, list];
  }

  function many({label, options, onChange, none = "all", reset = "All"}) {
    const chosen = new Set();
    let given = options;
    const count = el("strong");
    const panel = el("div.panel");
    const fold = el("details.many", el("summary", el("span", label), " ", count), panel);
    const say = () => replace(count, chosen.size ? String(chosen.size) : none);
    const report = () => {
      say();
      onChange([...chosen]);
    };
    const draw = () =>
      replace(
        panel,
        el("fieldset", el("legend.unseen", label), boxes(given, chosen, report)),
        button(
          reset,
          () => {
            chosen.clear();
            report();
            draw();
          },
          {class: "small"},
        ),
      );
    // before it opens, so that the next Tab finds the boxes
    fold.querySelector("summary").addEventListener("click", draw);
    fold.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !fold.open) return;
      fold.open = false;
      fold.querySelector("summary").focus();
    });
    document.addEventListener("click", (event) => {
      if (!event.composedPath().includes(fold)) fold.open = false;
    });
    fold.addEventListener("focusout", (event) => {
      if (event.relatedTarget && !fold.contains(event.relatedTarget)) fold.open = false;
    });
    return {
      element: fold,
      options: (list) => {
        if (JSON.stringify(list) === JSON.stringify(given)) return;
        given = list;
        if (fold.open) draw();
      },
      set: (values) => {
        if (values.length === chosen.size && values.every((value) => chosen.has(value)))
          return say();
        chosen.clear();
        values.forEach((value) => chosen.add(value));
        if (fold.open) draw();
        return say();
      },
    };
  }

  return {choice, check, search, many};
})();

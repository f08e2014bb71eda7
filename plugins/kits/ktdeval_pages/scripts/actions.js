// What a page does when it is asked to.
//
// kt.notice(text)                        says something for a moment
// kt.copy(text, what), kt.download(fileName, text, type)
// kt.command(lines)                      lines of a shell with a button that copies them

Object.assign(
  kt,
  (() => {
    const {el, byId, replace, button} = kt;

    let silence = 0;
    function notice(text) {
      const place = byId("notice");
      replace(place, text);
      window.clearTimeout(silence);
      silence = window.setTimeout(() => replace(place), 6000);
    }

    async function copy(text, what = "Link") {
      try {
        await navigator.clipboard.writeText(text);
        notice(`${what} copied.`);
      } catch {
        // the clipboard is not there without https, or not allowed
        const field = el("textarea.unseen", {"aria-hidden": "true", tabindex: "-1"});
        field.value = text;
        document.body.append(field);
        field.select();
        const done = document.execCommand("copy");
        field.remove();
        notice(done ? `${what} copied.` : `Not allowed to copy: ${text}`);
      }
    }

    function download(fileName, text, type = "text/plain") {
      const link = el("a", {
        href: URL.createObjectURL(new Blob([text], {type: `${type};charset=utf-8`})),
        download: fileName,
        hidden: true,
      });
      document.body.append(link);
      link.click();
      link.remove();
      window.setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }

    function command(lines) {
      const text = [lines].flat().join("\n");
      return el(
        "div.command",
        {},
        el("pre", {tabindex: "0", role: "group", "aria-label": "Command"}, text),
        button("Copy", () => copy(text, "Command"), {class: "small"}),
      );
    }

    return {notice, copy, download, command};
  })(),
);

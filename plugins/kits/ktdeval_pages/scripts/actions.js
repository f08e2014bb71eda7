// What a page does when it is asked to.
//
// kt.notice(text)                        says something for a moment
// kt.copy(text, what), kt.download(fileName, text, type)
// kt.savePicture(svg, title, keys)       downloads an SVG of the page as PNG; keys: [[name, colour], …]
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

    const LOOK = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "text-anchor"];
    const LETTERS = ["font-size", "font-family"];

    /** An SVG as an image of its own, with the colours and letters that it has on the page. */
    async function imageOf(picture, width, height) {
      const copy = picture.cloneNode(true);
      const shown = [picture, ...picture.querySelectorAll("*")];
      [copy, ...copy.querySelectorAll("*")].forEach((part, at) => {
        const style = getComputedStyle(shown[at]);
        for (const name of [...LOOK, ...LETTERS])
          part.setAttribute(name, style.getPropertyValue(name));
      });
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.setAttribute("width", width);
      copy.setAttribute("height", height);
      const image = new Image();
      const text = new XMLSerializer().serializeToString(copy);
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
      await image.decode();
      return image;
    }

    async function savePicture(picture, title, keys = []) {
      const [SCALE, HEAD, GAP] = [3, 24, 12];
      const {width, height} = picture.getBoundingClientRect();
      const image = await imageOf(picture, width, height);
      const canvas = el("canvas", {width: width * SCALE, height: (height + HEAD) * SCALE});
      const pen = canvas.getContext("2d");
      const {backgroundColor, color, fontFamily} = getComputedStyle(document.body);
      pen.scale(SCALE, SCALE);
      pen.fillStyle = backgroundColor;
      pen.fillRect(0, 0, width, height + HEAD);
      pen.font = `600 13px ${fontFamily}`;
      let left = 4;
      for (const [text, paint] of [[title, color], ...keys]) {
        pen.fillStyle = paint;
        pen.fillText(text, left, 16);
        left += pen.measureText(text).width + GAP;
      }
      pen.drawImage(image, 0, HEAD, width, height);
      const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
      canvas.toBlob((content) => download(`${name}.png`, content, "image/png"));
    }

    function command(lines) {
      const text = [lines].flat().join("\n");
      return el(
        "div.command",
        el("pre", {tabindex: "0", role: "group", "aria-label": "Command"}, text),
        button("Copy", () => copy(text, "Command"), {class: "small"}),
      );
    }

    return {notice, copy, download, savePicture, command};
  })(),
);

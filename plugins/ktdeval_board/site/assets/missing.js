// Of the page for wrong addresses: a host shows it at any depth and may serve the site below a path
// that only the address tells. The site's folder is the nearest one above with the site's style.
"use strict";

(() => {
  const MOST = 12; // folders that are asked
  const parts = location.pathname.split("/").slice(1, -1);
  const depths = [...Array(parts.length + 1).keys()].reverse();
  const folders = depths.map(
    (depth) =>
      `/${parts
        .slice(0, depth)
        .map((part) => `${part}/`)
        .join("")}`,
  );

  function style(folder, name, then, otherwise) {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = `${folder}assets/${name}.css`;
    link.addEventListener("load", then);
    link.addEventListener("error", () => {
      link.remove();
      otherwise();
    });
    document.head.append(link);
  }

  function found(folder) {
    style(
      folder,
      "pages",
      () => {},
      () => {},
    );
    const home = document.getElementById("home");
    if (home) home.href = `${folder}index.html`;
  }

  function ask([folder, ...others]) {
    if (folder === undefined) return;
    style(
      folder,
      "board",
      () => found(folder),
      () => ask(others),
    );
  }

  ask(folders.slice(0, MOST));
})();

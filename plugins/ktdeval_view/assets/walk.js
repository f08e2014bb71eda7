// Walking through the days or samples of an episode: by keys, by buttons, and in their list, which
// lies over the page of a telephone once it is asked for.

const openList = () => byId("days").classList.add("open");
const closeList = () => byId("days").classList.remove("open");

/** The next of the shown places in a direction, or null at the end. */
function nextPlace(shown, from, direction) {
  const near =
    direction > 0 ? shown.find((other) => other > from) : shown.findLast((other) => other < from);
  return near ?? null;
}

/** `step(direction)` goes on; `keys` have further keys; `link()` is the list's for the place on show. */
function listenWalk({step, keys = {}, link}) {
  const [back, on] = [() => step(-1), () => step(1)];
  const search = () => {
    openList();
    byId("search").focus();
  };
  const actions = {ArrowLeft: back, k: back, ArrowRight: on, j: on, "/": search, ...keys};
  const inListKeys = {ArrowUp: "k", ArrowDown: "j"};
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    if (event.key === "Escape") closeList();
    if (event.target.closest("input, select, textarea")) return;
    const box = event.target.closest(".scroll");
    if (box && box.scrollWidth > box.clientWidth && event.key.startsWith("Arrow")) return;
    const inList = event.target.closest("#list");
    const action = actions[(inList && inListKeys[event.key]) || event.key];
    if (!action) return;
    event.preventDefault();
    action();
    if (inList) link()?.focus({preventScroll: true});
  });
  for (const id of ["earlier", "bar-earlier"]) byId(id).addEventListener("click", back);
  for (const id of ["later", "bar-later"]) byId(id).addEventListener("click", on);
  byId("bar-day").addEventListener("click", openList);
  byId("close-days").addEventListener("click", closeList);
  byId("list").addEventListener("click", (event) => {
    if (event.target.closest("a")) closeList();
  });
}

/** Show what follows the address, now and whenever it changes. */
function followAddress(view) {
  window.addEventListener("hashchange", () => view.follow());
  byId("page").classList.remove("waiting");
  view.follow();
}

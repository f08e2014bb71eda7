// Downloads of a tear sheet: its series and figures as CSV, its charts as PNG.

document.querySelectorAll("button[data-file]").forEach((place) => {
  place.hidden = false;
  place.addEventListener("click", async () => {
    const {file, text, packed} = place.dataset;
    kt.download(file, text ?? (await kt.unpack(packed)), "text/csv");
  });
});

document.querySelectorAll("figure > svg").forEach((picture) => {
  const caption = picture.parentElement.querySelector("figcaption");
  const title = caption.firstChild.textContent.trim();
  const keys = [...caption.querySelectorAll(".key")].map((key) => [
    key.textContent,
    getComputedStyle(key, "::before").borderTopColor,
  ]);
  const save = () => kt.savePicture(picture, title, keys);
  const tools = {class: "small", "aria-label": `Save as PNG: ${title}`};
  caption.prepend(kt.el("span.chart-tools", kt.button("PNG", save, tools)));
});

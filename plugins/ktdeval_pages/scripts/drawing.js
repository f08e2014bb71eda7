// Small drawings in SVG, for pages that have to be one file and can't carry Vega-Lite (0.8 MB).
//
// kt.drawing.ends(values)
//     [lowest, highest] of a list, however long
// kt.drawing.line(values, x, y)
//     path through points, with a gap where a value is null; a point between gaps is a short
//     stroke; x and y give coordinates
// kt.drawing.ticks(low, high, most)
//     round values between two ends, at most `most`
// kt.drawing.triangle(x, y, {half, near, far, up})
//     corners of a triangle `near` to `far` below a point, or above it unless `up`
// kt.drawing.number(value)
//     a coordinate as an attribute

kt.drawing = (() => {
  const number = (value) => value.toFixed(1);

  /* A list may be longer than a call can take arguments. */
  const ends = (values) =>
    [Math.min, Math.max].map((best) => values.reduce((one, other) => best(one, other)));

  const isThere = (value) => value !== null && value !== undefined;

  function line(values, x, y) {
    let path = "";
    let pen = "M";
    values.forEach((value, index) => {
      if (!isThere(value)) {
        pen = "M";
        return;
      }
      path += `${pen}${number(x(index))} ${number(y(value))}`;
      const isAlone = pen === "M" && !isThere(values[index + 1]);
      if (isAlone) path += "m-2 0h4"; // a path of one point has no ink
      pen = "L";
    });
    return path;
  }

  function ticks(low, high, most) {
    const rough = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const found = [];
    const first = Math.ceil(low / step - 1e-9);
    for (let index = first; index * step <= high + 1e-9 * step; index += 1)
      found.push(index * step);
    return found;
  }

  function triangle(x, y, {half, near, far, up}) {
    const direction = up ? 1 : -1;
    const base = number(y + direction * far);
    return (
      `${number(x - half)},${base} ${number(x + half)},${base} ` +
      `${number(x)},${number(y + direction * near)}`
    );
  }

  return {ends, line, number, ticks, triangle};
})();

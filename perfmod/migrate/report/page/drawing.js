// Intervals as bars. All on the page are on one scale, so that they can be compared by eye.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 14;
const ends = data.gains.flatMap(({ ratio, low, high }) => [low ?? ratio, high ?? ratio]).filter((end) => end > 0);
// Of speeds, twice as fast lies as far from 1 as half as fast.
const least = Math.log(Math.min(1, ...ends) / 1.05);
const most = Math.log(Math.max(1, ...ends) * 1.05);
const placeOf = (ratio) => ((Math.log(Math.max(ratio, 1e-9)) - least) / (most - least)) * WIDTH;

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** A picture of a speed ratio; it says nothing that does not stand beside it in words. */
function intervalBar(ratio, low, high) {
  const kind = (low ?? ratio) > 1 ? "faster" : (high ?? ratio) < 1 ? "slower" : "same";
  const picture = shape("svg", { class: `interval ${kind}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" });
  const [from, to] = [placeOf(low ?? ratio), placeOf(high ?? ratio)];
  picture.append(
    shape("rect", { class: "range", x: from, y: 4, width: Math.max(to - from, 1), height: 6, rx: 1 }),
    shape("line", { class: "one", x1: placeOf(1), x2: placeOf(1), y1: 0, y2: HEIGHT }),
    shape("circle", { class: "point", cx: placeOf(ratio), cy: HEIGHT / 2, r: 3 }));
  return picture;
}

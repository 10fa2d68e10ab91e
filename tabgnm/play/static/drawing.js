// What all pictures share: colors of the theme, sharp canvases, fields as images, level lines, and motion.

const darkTheme = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export let colors = readColors();

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => rgb(style.getPropertyValue(name).trim());
  const names = ["paper", "ink", "faint", "rule", "accent", "contour"];
  const found = Object.fromEntries(names.map((name) => [name, read(`--${name}`)]));
  found.classes = [0, 1, 2, 3, 4, 5].map((i) => read(`--class-${i}`));
  [found.negative, found.positive] = found.classes;
  return found;
}

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

export function onTheme(redraw) {
  darkTheme.addEventListener("change", () => { colors = readColors(); redraw(); });
}

export const css = ([r, g, b], alpha = 1) => `rgb(${r} ${g} ${b} / ${alpha})`;

// A canvas as large as it is shown, in device pixels; returns its context, scaled to CSS pixels, and its size.
export function sharp(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = Math.min(devicePixelRatio || 1, 2.5);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// Fields over the plane, as the server sends them: 16-bit integers in cells of a grid.
let scale = 1;

export function setScale(value) {
  scale = value;
}

export function decoded(base64) {
  const text = atob(base64);
  const bytes = new DataView(new ArrayBuffer(text.length));
  for (let i = 0; i < text.length; i++) bytes.setUint8(i, text.charCodeAt(i));
  return Float32Array.from({ length: text.length / 2 }, (_, i) => bytes.getInt16(2 * i, true) / scale);
}

// What a node computes; the server sends the argument of its function. Negative values orange and positive ones blue.
export function paintNode(canvas, node, argument, grid) {
  const isRelu = node.function === "relu";
  paint(canvas, grid, (i, pixel) => {
    const value = isRelu ? Math.max(0, argument[i]) : argument[i];
    const strength = Math.abs(value) ** 0.8 * 0.9;
    const end = value < 0 ? colors.negative : colors.positive;
    for (let c = 0; c < 3; c++) pixel[c] = colors.paper[c] + (end[c] - colors.paper[c]) * strength;
  });
}

// Probabilities of all classes: their colors mixed, paler where the machine is less sure.
export function paintClasses(canvas, fields, grid) {
  const n = fields.length;
  paint(canvas, grid, (i, pixel) => {
    let most = 0;
    for (const field of fields) most = Math.max(most, field[i]);
    const strength = 0.1 + 0.55 * Math.max(0, (most - 1 / n) / (1 - 1 / n)) ** 0.8;
    for (let c = 0; c < 3; c++) {
      let mixed = 0;
      for (let k = 0; k < n; k++) mixed += fields[k][i] * colors.classes[k][c];
      pixel[c] = colors.paper[c] + (mixed - colors.paper[c]) * strength;
    }
  });
}

function paint(canvas, grid, color) {
  if (canvas.width !== grid) canvas.width = canvas.height = grid;
  const context = canvas.getContext("2d");
  const image = context.createImageData(grid, grid);
  const { data } = image;
  const pixel = [0, 0, 0];
  for (let i = 0; i < grid * grid; i++) {
    color(i, pixel);
    for (let c = 0; c < 3; c++) data[4 * i + c] = pixel[c];
    data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// Adds the line on which a field has a level to the path of a context, by marching squares between centers of cells.
export function traceLevel(context, value, grid, size, level = 0) {
  // Half a cell beyond the outermost centers, the field continues as it is there.
  const beyond = (i, read) => {
    if (i < 0) return 1.5 * read(0) - 0.5 * read(1);
    return i < grid ? read(i) : 1.5 * read(grid - 1) - 0.5 * read(grid - 2);
  };
  const at = (row, column) => beyond(row, (r) => beyond(column, (c) => value(r * grid + c))) - level;
  const place = (i) => (Math.max(0, Math.min(grid, i + 0.5)) / grid) * size;
  for (let row = -1; row < grid; row++) {
    for (let column = -1; column < grid; column++) {
      const corners = [at(row, column), at(row, column + 1), at(row + 1, column + 1), at(row + 1, column)];
      const inside = corners.map((corner) => corner > 0);
      if (inside.every((own) => own === inside[0])) continue;
      const places = [[column, row], [column + 1, row], [column + 1, row + 1], [column, row + 1]];
      const crossings = [];
      for (let side = 0; side < 4; side++) {
        const next = (side + 1) % 4;
        if (inside[side] === inside[next]) continue;
        const share = corners[side] / (corners[side] - corners[next]);
        const [from, to] = [places[side], places[next]].map(([x, y]) => [place(x), place(y)]);
        crossings.push([from[0] + share * (to[0] - from[0]), from[1] + share * (to[1] - from[1])]);
      }
      for (let i = 0; i + 1 < crossings.length; i += 2) {
        context.moveTo(...crossings[i]);
        context.lineTo(...crossings[i + 1]);
      }
    }
  }
}

// Moves a number a share of the way to its target; returns whether it still moves.
export function approach(object, name, target, share) {
  const rest = target - object[name];
  const arrived = calm.matches || Math.abs(rest) < 0.002;
  object[name] = arrived ? target : object[name] + rest * share;
  return !arrived;
}

export const isCalm = () => calm.matches;

// Calls `draw(share)` once per frame of the screen, only as long as it returns true or is requested. `share` is how much
// of the way to its target a thing moves in this frame: as fast on a slow screen as on a fast one.
export function animation(draw, milliseconds) {
  let requested = false;
  let before = null; // when the last frame was, if things were moving then
  const run = (now) => {
    requested = false;
    const elapsed = before === null ? 16 : Math.min(200, now - before);
    const moving = draw(1 - Math.exp(-elapsed / milliseconds));
    before = moving ? now : null;
    if (moving) request();
  };
  const request = () => { if (!requested) { requested = true; requestAnimationFrame(run); } };
  return request;
}

// Text with a halo, that can be read on anything.
// The beginning and the end of a long text: names often differ only at the end.
export function shortened(text, longest) {
  const characters = Array.from(text);
  if (characters.length <= longest) return text;
  const end = Math.floor(((longest - 1) * 7) / 16);
  return `${characters.slice(0, longest - 1 - end).join("")}…${characters.slice(characters.length - end).join("")}`;
}

// A text that is at most so wide.
export function fitted(context, text, width) {
  let longest = Array.from(text).length;
  while (longest > 2 && context.measureText(shortened(text, longest)).width > width) longest -= 1;
  return shortened(text, longest);
}

export function write(context, text, x, y) {
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = css(colors.paper, 0.85);
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

export const number = (value, digits = 3) => value.toLocaleString("en", { maximumSignificantDigits: digits }).replace("-", "−");

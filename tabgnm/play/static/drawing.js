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

export function decoded(base64, Type) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Type(bytes.buffer);
}

// Values from -1 to 1 as orange, paper, blue.
export function paintValues(canvas, values, grid) {
  paint(canvas, grid, (i, pixel) => {
    const strength = Math.min(1, Math.abs(values[i])) ** 0.8 * 0.9;
    const end = values[i] < 0 ? colors.negative : colors.positive;
    for (let c = 0; c < 3; c++) pixel[c] = colors.paper[c] + (end[c] - colors.paper[c]) * strength;
  });
}

// Probabilities of all classes: their colors mixed, paler where the machine is less sure.
export function paintClasses(canvas, fields, grid) {
  const n = fields.length;
  paint(canvas, grid, (i, pixel) => {
    let most = 0;
    for (const field of fields) most = Math.max(most, field[i]);
    const strength = 0.12 + 0.62 * Math.max(0, (most - 1 / n) / (1 - 1 / n)) ** 0.8;
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
  const clamp = (i) => Math.max(0, Math.min(grid - 1, i));
  const at = (row, column) => value(clamp(row) * grid + clamp(column)) - level;
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

// A number on its way to a target; `step` says whether it still moves.
export function approach(object, name, target, speed) {
  const rest = target - object[name];
  const arrived = calm.matches || Math.abs(rest) < 0.002;
  object[name] = arrived ? target : object[name] + rest * speed;
  return !arrived;
}

export const isCalm = () => calm.matches;

// Calls `draw` once per frame of the screen, only as long as it returns true or is requested.
export function animation(draw) {
  let requested = false;
  const run = () => { requested = false; if (draw()) request(); };
  const request = () => { if (!requested) { requested = true; requestAnimationFrame(run); } };
  return request;
}

const DIGITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const number = (value) => DIGITS.format(value).replace("-", "−");

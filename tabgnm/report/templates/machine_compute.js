// What the machine computes, from the cells of a row to a prediction. Nothing here touches the page.

const LARGEST_SINGLE = 3.4028234663852886e38;

// The error function by Abramowitz and Stegun, 7.1.26: off by less than 2e-7.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const sigmoid = (z) => (z >= 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z)));
const softplus = (z) => (z > 20 ? z : Math.log1p(Math.exp(z)));

const FUNCTIONS = {
  identity: (z) => z,
  relu: (z) => Math.max(z, 0),
  leaky_relu: (z) => (z > 0 ? z : 0.01 * z),
  elu: (z) => (z > 0 ? z : Math.expm1(z)),
  gelu: (z) => 0.5 * z * (1 + erf(z * Math.SQRT1_2)),
  silu: (z) => z * sigmoid(z),
  mish: (z) => z * Math.tanh(softplus(z)),
  softplus,
  tanh: Math.tanh,
  sigmoid,
};

// Cells. A missing one is null everywhere.

const DATE = /^(-?\d{1,6})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d*)?))?)?$/;

function daysOfDate(text) {
  const found = DATE.exec(text);
  if (!found) throw new TypeError(`${JSON.stringify(text)} is not a date; expected one like 2024-02-29 or 2024-02-29T12:30`);
  const [year, month, day, hour, minute, second] = found.slice(1).map((part) => Number(part ?? 0));
  const midnight = new Date(0);
  midnight.setUTCFullYear(year, month - 1, day);
  return midnight.getTime() / 86400000 + (hour * 3600 + minute * 60 + second) / 86400;
}

function secondsOfTime(text) {
  const found = /^(\d\d):(\d\d)(?::(\d\d(?:\.\d*)?))?$/.exec(text);
  if (!found) throw new TypeError(`${JSON.stringify(text)} is not a time; expected one like 12:30 or 12:30:15`);
  return Number(found[1]) * 3600 + Number(found[2]) * 60 + Number(found[3] ?? 0);
}

// Returns a cell as recipes read it: a text for categories, a number for all others; days since 1970 for dates.
function readCell(column, cell) {
  if (cell === null || cell === undefined || Number.isNaN(cell)) return null;
  if (column.kind === "category") {
    if (typeof cell === "boolean") return cell ? "True" : "False";
    return String(cell);
  }
  if (column.kind === "datetime") return typeof cell === "number" ? cell : daysOfDate(String(cell));
  if (column.kind === "time" && typeof cell === "string") return secondsOfTime(cell);
  const number = typeof cell === "string" && cell.trim() === "" ? NaN : Number(cell);
  if (!Number.isFinite(number)) {
    throw new TypeError(`column ${JSON.stringify(column.name)} has ${JSON.stringify(cell)}; expected a number, or null`);
  }
  return number;
}

function datePart(days, part) {
  if (part === "days") return days;
  const whole = Math.floor(days);
  if (part === "hour") return (days - whole) * 24;
  if (part === "weekday") return (((whole + 3) % 7) + 7) % 7; // 1970-01-01 was a Thursday, and Monday is 0
  const date = new Date(whole * 86400000);
  if (part === "year") return date.getUTCFullYear();
  return part === "month" ? date.getUTCMonth() + 1 : date.getUTCDate();
}

function interpolated(x, knots, targets) {
  if (x <= knots[0]) return targets[0];
  const last = knots.length - 1;
  if (x >= knots[last]) return targets[last];
  let low = 0;
  let high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle] <= x) low = middle;
    else high = middle;
  }
  return targets[low] + ((targets[high] - targets[low]) / (knots[high] - knots[low])) * (x - knots[low]);
}

function mappedNumber(input, cell) {
  if (cell === null) return input.fill;
  const x = input.part ? datePart(cell, input.part) : cell;
  if (input.method === "knots") return interpolated(x * input.unit, input.knots, input.targets);
  if (input.method === "identity") return x;
  const z = (x - input.center) / input.scale;
  if (input.method === "linear") return z;
  const limited = Math.max(-1e9, Math.min(1e9, z));
  return limited / Math.sqrt(1 + (limited / 3) ** 2);
}

// The machines of all sizes: `evaluate` returns all values of one for a row, `predict` what follows from its outputs.
class Machines {
  constructor(data) {
    this.data = data;
    this.known = data.columns.map((column) => new Set(column.levels));
    this.tables = data.inputs.map((input) =>
      input.what === "table" ? new Map(input.levels.map((level, place) => [level, input.numbers[place]])) : null);
  }

  inputValue(place, cell) {
    const input = this.data.inputs[place];
    if (input.what === "nothing") return 0;
    if (input.what === "missing") return cell === null ? 1 : 0;
    if (input.what === "unknown") return cell !== null && this.known[input.column].has(cell) ? 0 : 1;
    if (input.what === "table") return cell === null ? input.missing : (this.tables[place].get(cell) ?? input.other);
    const value = mappedNumber(input, cell);
    // `predict` reads inputs in the precision of float32.
    return this.data.single ? Math.fround(Math.max(-LARGEST_SINGLE, Math.min(LARGEST_SINGLE, value))) : value;
  }

  // `cells` are those of all columns, as `readCell` returns them.
  evaluate(machine, cells) {
    const nInputs = this.data.inputs.length;
    const values = new Float64Array(nInputs + machine.units.length);
    for (const place of machine.inputs) values[place] = this.inputValue(place, cells[this.data.inputs[place].column]);
    machine.units.forEach((unit, place) => {
      let total = unit.bias;
      for (let i = 0; i < unit.sources.length; i += 1) total += unit.weights[i] * values[unit.sources[i]];
      values[nInputs + place] = FUNCTIONS[unit.function](total);
    });
    return values;
  }

  // Returns {numbers}, or {probabilities, labels} with one entry for each target.
  predict(machine, values) {
    const { link, classes, center, most } = this.data;
    const outputs = machine.outputs.map((value) => values[value]);
    if (!classes.length) {
      if (link === "exp") {
        return { numbers: outputs.map((z, i) => center[i] * Math.exp(Math.max(-most, Math.min(most, z)))) };
      }
      return { numbers: link === "sorted" ? [...outputs].sort((a, b) => a - b) : outputs };
    }
    let first = 0;
    const probabilities = classes.map((labels, target) => {
      if (link === "constant") return [1];
      if (link === "sigmoid") return [sigmoid(-outputs[target]), sigmoid(outputs[target])];
      const part = outputs.slice(first, first + labels.length);
      first += labels.length;
      const largest = Math.max(...part);
      const powers = part.map((z) => Math.exp(z - largest));
      const total = powers.reduce((sum, power) => sum + power, 0);
      return powers.map((power) => power / total);
    });
    const labels = probabilities.map((part, target) => classes[target][part.indexOf(Math.max(...part))]);
    return { probabilities, labels };
  }

  // Columns that a machine reads, by their place.
  columnsOf(machine) {
    return [...new Set(machine.inputs.map((place) => this.data.inputs[place].column))].sort((a, b) => a - b);
  }

  // Cells to draw a column over: numbers from the smallest to the largest of the training rows, or all levels.
  sweep(place, nPoints) {
    const column = this.data.columns[place];
    if (column.kind === "category") return column.levels;
    if (column.kind === "boolean") return [0, 1];
    const [low, high] = rangeOf(column);
    return Array.from({ length: nPoints }, (_, i) => low + ((high - low) * i) / (nPoints - 1));
  }
}

// Range of a column of numbers or dates for sliders and curves.
function rangeOf(column) {
  if (column.span && column.span[1] > column.span[0]) return column.span;
  const middle = Number(readCell(column, column.typical) ?? 0);
  return [middle - 1, middle + 1];
}

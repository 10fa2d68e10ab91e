// Small helpers to build the page. Names of columns, levels and classes are never parsed as HTML: text goes in as text.

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = "\u0000unknown"; // a cell with a level that the machine has never seen

function element(tag, attributes = {}, ...children) {
  const own = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) own.setAttribute(name, value === true ? "" : value);
  }
  own.append(...children);
  return own;
}

function svg(tag, attributes = {}, ...children) {
  const own = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) own.setAttribute(name, value);
  own.append(...children);
  return own;
}

function shownNumber(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replaceAll("-", "−");
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 3;
  return (value + 0).toLocaleString("en", { maximumFractionDigits: digits }).replace(/^-0$/, "0").replace("-", "−");
}

const signed = (value) => (value >= 0 ? "+" : "") + shownNumber(value);
const shownShare = (value) => `${(100 * value).toFixed(1)} %`;
const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

function shortened(text, longest) {
  const characters = Array.from(text.replace(/\s+/g, " "));
  return characters.length <= longest ? characters.join("") : characters.slice(0, longest - 1).join("") + "…";
}

function dateText(days, withTime) {
  const iso = new Date(Math.round(days * 86400000)).toISOString();
  return withTime ? iso.slice(0, 16) : iso.slice(0, 10);
}

// A cell, as `readCell` returns it, in words.
function shownCell(column, cell) {
  if (cell === null) return "missing";
  if (column.kind === "category") return cell === UNKNOWN ? "unknown level" : cell;
  if (column.kind === "boolean") return cell ? "true" : "false";
  if (column.kind === "datetime") return dateText(cell, column.has_time).replace("T", " ");
  if (column.kind === "time") return timeText(cell);
  return shownNumber(cell) + (column.kind === "duration" ? " s" : "");
}

function timeText(seconds) {
  const whole = Math.round(seconds);
  return [whole / 3600, (whole / 60) % 60, whole % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
}

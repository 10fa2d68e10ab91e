// What nodes are called, and what they compute as a formula: in the units of the axes, although the machine itself is
// given standardized values.

import { number } from "./drawing.js";

const MAX_TERMS = 6;
const [MIN_DIGITS, MAX_DIGITS] = [3, 12];
const SUPERSCRIPTS = "⁰¹²³⁴";

export class Names {
  constructor({ names, classes, center, scale }) {
    this.inputs = names;
    this.center = center;
    this.scale = scale;
    this.classes = classes;
    this.nOutputs = classes.length === 2 ? 1 : classes.length;
    this.nLayers = 2;
  }

  // The name of a node. A node that is updated in several layers has the layer as an exponent.
  of({ node, layer, kind }) {
    if (kind === "output") return this.nOutputs === 1 ? this.classes[1] : this.classes[Number(node.slice(1)) - 1];
    const place = Number(node.slice(1));
    if (layer === 0) return this.inputs[place - 1];
    const name = node[0] === "x" ? this.inputs[place - 1] : node;
    return node[0] === "n" && this.nLayers === 2 ? name : `${name}⁽${SUPERSCRIPTS[layer]}⁾`;
  }

  // The weight of an edge for values in the units of the axes.
  weight(weight, { node, layer }) {
    return layer === 0 ? weight / this.scale[Number(node.slice(1)) - 1] : weight;
  }

  // What the bias becomes if inputs are not centered.
  bias({ bias }, terms) {
    const inputs = terms.filter(([, source]) => source.layer === 0);
    return inputs.reduce((sum, [weight, source]) => sum - this.weight(weight, source) * this.center[Number(source.node.slice(1)) - 1], bias);
  }

  // Significant digits that a formula needs: more if values are far from 0, where terms and bias nearly cancel.
  digits(terms) {
    const inputs = terms.filter(([, source]) => source.layer === 0).map(([, source]) => Number(source.node.slice(1)) - 1);
    const far = Math.max(1, ...inputs.map((place) => Math.abs(this.center[place]) / this.scale[place]));
    return Math.min(MAX_DIGITS, MIN_DIGITS + Math.ceil(Math.log10(far)));
  }

  // Text and elements that say what a node computes.
  formula({ node, terms }) {
    const title = document.createElement("b");
    if (node.kind === "input") {
      title.textContent = this.of(node);
      return [title, node.used ? ": an input of the machine." : ": an input that the machine no longer uses."];
    }
    const strongest = [...terms].sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const digits = this.digits(terms);
    const size = (value) => number(Math.abs(value), digits);
    const sum = strongest.slice(0, MAX_TERMS).map(([weight, source]) => [weight, `${size(this.weight(weight, source))}·${this.of(source)}`]);
    if (terms.length > MAX_TERMS) sum.push([1, `${terms.length - MAX_TERMS} more terms`]);
    const bias = this.bias(node, terms);
    if (bias || !sum.length) sum.push([bias, size(bias)]);
    const text = sum.map(([weight, term], i) => (weight < 0 ? (i ? " − " : "−") : i ? " + " : "") + term).join("");
    title.textContent = node.kind === "output" ? `${this.nOutputs === 1 ? "log-odds" : "score"} of ${this.of(node)}` : this.of(node);
    return [title, ` = ${node.function === "identity" ? text : `${node.function}(${text})`}`];
  }
}

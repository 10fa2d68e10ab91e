// What nodes are called, and what they compute as a formula.

import { number } from "./drawing.js";

const MOST_TERMS = 6;
const SUPERSCRIPTS = "⁰¹²³⁴";

export class Names {
  constructor({ names, classes }) {
    this.inputs = names;
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
    return node[0] === "h" && this.nLayers === 2 ? name : `${name}⁽${SUPERSCRIPTS[layer]}⁾`;
  }

  // Text and elements that say what a node computes.
  formula({ node, terms }) {
    const title = document.createElement("b");
    if (node.kind === "input") {
      title.textContent = this.of(node);
      return [title, node.used ? ": an input of the machine." : ": an input that the machine no longer uses."];
    }
    const strongest = [...terms].sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const sum = strongest.slice(0, MOST_TERMS).map(([weight, source]) => [weight, `${number(Math.abs(weight))}·${this.of(source)}`]);
    if (terms.length > MOST_TERMS) sum.push([1, `${terms.length - MOST_TERMS} more terms`]);
    if (node.bias || !sum.length) sum.push([node.bias, number(Math.abs(node.bias))]);
    const text = sum.map(([weight, term], i) => (weight < 0 ? (i ? " − " : "−") : i ? " + " : "") + term).join("");
    title.textContent = node.kind === "output" ? `${this.nOutputs === 1 ? "log-odds" : "score"} of ${this.of(node)}` : this.of(node);
    return [title, ` = ${node.function === "identity" ? text : `${node.function}(${text})`}`];
  }
}

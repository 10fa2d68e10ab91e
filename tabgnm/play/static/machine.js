// The machine: nodes with pictures of what they compute, inputs left and outputs right, and weights as lines between
// them. Nodes and lines move, fade and vanish smoothly from one frame to the next.

import { animation, approach, colors, css, decoded, fitted, number, paintNode, sharp, write } from "./drawing.js";

const NODE = 64; // size of a node's element, which is scaled
const [SMALLEST, LARGEST] = [20, 92];
const MILLISECONDS = 90;
const GONE = 0.02;
const MAX_WEIGHTS = 6; // that are written next to their lines
const NAME = 24; // room for the name of a node
const FOOT = 26; // room for the names of the layers

const idOf = (node) => `${node.layer}:${node.node}`;

export class Machine {
  // onShow(id or null) is called when a node is pointed at, focused, or left.
  constructor(container, grid, onShow) {
    this.container = container;
    this.canvas = container.querySelector("canvas");
    this.grid = grid;
    this.onShow = onShow;
    this.nodes = new Map(); // by id
    this.edges = new Map(); // by "id>id"
    this.shown = null;
    this.frame = null;
    this.request = animation((share) => this.draw(share), MILLISECONDS);
    new ResizeObserver(() => { if (this.frame) this.place(); this.request(); }).observe(container);
  }

  setFrame(frame, names) {
    this.frame = frame;
    this.names = names;
    const ids = frame.nodes.map(idOf);
    for (const own of this.nodes.values()) own.alive = false;
    frame.nodes.forEach((node, i) => this.setNode(ids[i], node));
    for (const own of this.edges.values()) own.target = 0;
    for (const [source, target, weight] of frame.edges) {
      const id = `${ids[source]}>${ids[target]}`;
      const edge = this.edges.get(id) ?? { weight: 0, from: ids[source], to: ids[target] };
      edge.target = weight;
      this.edges.set(id, edge);
    }
    this.place();
    this.request();
  }

  setNode(id, node) {
    let own = this.nodes.get(id);
    if (!own) {
      own = { ...this.element(id), id, opacity: 0, x: null, y: null, size: SMALLEST };
      this.nodes.set(id, own);
    }
    own.alive = true;
    own.node = node;
    own.button.className = `node ${node.kind}${id === this.shown ? " shown" : ""}`;
    own.button.setAttribute("aria-label", `Node ${this.names.of(node)}: show what it computes`);
    paintNode(own.picture, node, decoded(node.map), this.grid);
    const radius = 3 + 5 * (1 - Math.exp(-Math.abs(node.bias)));
    own.bias.hidden = node.bias === 0;
    own.bias.style.width = own.bias.style.height = `${2 * radius}px`;
    own.bias.style.background = css(node.bias < 0 ? colors.negative : colors.positive);
  }

  element(id) {
    const button = document.createElement("button");
    button.type = "button";
    const picture = document.createElement("canvas");
    const bias = document.createElement("i");
    button.append(picture, bias);
    const show = () => this.show(id);
    const leave = () => { if (this.shown === id) this.show(null); };
    button.addEventListener("pointerenter", show);
    button.addEventListener("focus", show);
    button.addEventListener("pointerleave", leave);
    button.addEventListener("blur", leave);
    this.container.append(button);
    return { button, picture, bias };
  }

  show(id) {
    this.nodes.get(this.shown)?.button.classList.remove("shown");
    this.shown = id;
    this.nodes.get(id)?.button.classList.add("shown");
    this.onShow(id);
    this.request();
  }

  // The node of the current frame with an id, and the edges that lead to it.
  described(id) {
    const own = this.nodes.get(id);
    if (!own?.alive) return null;
    const place = this.frame.nodes.indexOf(own.node);
    const incoming = this.frame.edges.filter(([, target]) => target === place);
    return { node: own.node, terms: incoming.map(([source, , weight]) => [weight, this.frame.nodes[source]]) };
  }

  // Where each node should be: a column per layer, nodes as large as the fullest column allows.
  place() {
    const { clientWidth: width, clientHeight } = this.container;
    const height = clientHeight - FOOT;
    const nLayers = this.frame.n_layers;
    const columns = Array.from({ length: nLayers + 1 }, () => []);
    for (const node of this.frame.nodes) columns[node.kind === "output" ? nLayers : node.layer].push(idOf(node));
    const fullest = Math.max(...columns.map((own) => own.length));
    const size = Math.max(SMALLEST, Math.min(LARGEST, (height / fullest) * 0.74, (width / (nLayers + 1)) * 0.5));
    const pad = size / 2 + 14;
    columns.forEach((ids, layer) => {
      const named = layer === 0 || layer === nLayers; // below their nodes
      const pitch = Math.min(height / Math.max(1, ids.length), Math.max(1.75 * size, named ? size + NAME : 0));
      ids.forEach((id, row) => {
        const own = this.nodes.get(id);
        own.toX = pad + (layer / nLayers) * (width - 2 * pad);
        own.toY = height / 2 + (row - (ids.length - 1) / 2) * pitch;
        own.toSize = size;
        if (own.x === null) [own.x, own.y] = [own.toX, own.toY];
      });
    });
  }

  draw(share) {
    if (!this.frame) return false;
    let moving = false;
    for (const own of this.nodes.values()) {
      moving = approach(own, "x", own.toX, share) || moving;
      moving = approach(own, "y", own.toY, share) || moving;
      moving = approach(own, "size", own.alive ? own.toSize : own.toSize * 0.4, share) || moving;
      moving = approach(own, "opacity", own.alive ? 1 : 0, share) || moving;
      if (!own.alive && own.opacity < GONE) this.remove(own);
      else {
        own.button.style.transform = `translate(${own.x}px, ${own.y}px) scale(${own.size / NODE})`;
        own.button.style.opacity = own.opacity * (own.node.used ? 1 : 0.35);
      }
    }
    for (const [id, edge] of this.edges) {
      moving = approach(edge, "weight", edge.target, share) || moving;
      const gone = edge.target === 0 && Math.abs(edge.weight) < GONE;
      if (gone || !this.nodes.has(edge.from) || !this.nodes.has(edge.to)) this.edges.delete(id);
    }
    const { context, width, height } = sharp(this.canvas);
    const edges = [...this.edges.values()].sort((a, b) => Math.abs(a.weight) - Math.abs(b.weight));
    for (const edge of edges) this.drawEdge(context, edge);
    const incoming = edges.filter((edge) => edge.to === this.shown);
    for (const edge of incoming.slice(-MAX_WEIGHTS)) this.drawWeight(context, edge);
    this.drawNames(context, width, height);
    return moving;
  }

  remove(own) {
    if (this.shown === own.id) this.show(null);
    own.button.remove();
    this.nodes.delete(own.id);
  }

  drawEdge(context, edge) {
    const [from, to] = [this.nodes.get(edge.from), this.nodes.get(edge.to)];
    const strength = 1 - Math.exp(-Math.abs(edge.weight) / 0.9);
    const isApart = this.shown && edge.from !== this.shown && edge.to !== this.shown;
    const color = edge.weight < 0 ? colors.negative : colors.positive;
    context.beginPath();
    context.moveTo(from.x, from.y);
    const bend = 0.45 * (to.x - from.x);
    context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
    context.lineWidth = 0.6 + 5.4 * strength;
    context.setLineDash(edge.weight < 0 ? [3 + 1.6 * context.lineWidth, 2 + context.lineWidth] : []);
    context.strokeStyle = css(color, Math.min(from.opacity, to.opacity) * (0.1 + 0.85 * strength) * (isApart ? 0.2 : 1));
    context.stroke();
    context.setLineDash([]);
  }

  drawWeight(context, edge) {
    const [from, to] = [this.nodes.get(edge.from), this.nodes.get(edge.to)];
    const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillStyle = css(colors.ink);
    write(context, number(this.names.weight(edge.weight, from.node)), x, y + 4);
  }

  drawNames(context, width, height) {
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillStyle = css(colors.faint);
    const nLayers = this.frame.n_layers;
    const columnOf = new Map();
    for (const own of this.nodes.values()) if (own.alive) columnOf.set(own.node.kind === "output" ? nLayers : own.node.layer, own.x);
    for (const [layer, x] of columnOf) {
      const name = layer === 0 ? "inputs" : layer === nLayers ? (this.names.nOutputs > 1 ? "outputs" : "output") : `layer ${layer}`;
      context.fillText(name, Math.max(24, Math.min(width - 24, x)), height - 6);
    }
    context.font = "600 12px system-ui, sans-serif";
    context.fillStyle = css(colors.ink);
    for (const own of this.nodes.values()) {
      if (!own.alive || own.node.kind === "hidden") continue;
      const text = fitted(context, this.names.of(own.node), Math.min(170, width / (nLayers + 1)));
      const half = context.measureText(text).width / 2 + 4;
      write(context, text, Math.max(half, Math.min(width - half, own.x)), own.y + own.size / 2 + 16);
    }
  }
}

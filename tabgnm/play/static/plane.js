// The plane: what the machine predicts everywhere, the line where its prediction changes, and the points; or what one
// node computes.

import { animation, approach, colors, css, decoded, fitted, isCalm, number, paintClasses, paintNode, sharp, traceLevel, write } from "./drawing.js";

const MILLISECONDS = 50;
const LEVELS = [-0.8, -0.6, -0.4, -0.2, 0.2, 0.4, 0.6, 0.8];

export class Plane {
  constructor(canvas, grid) {
    this.canvas = canvas;
    this.grid = grid;
    this.points = null;
    this.fields = null; // probability of each class in each cell
    this.wanted = null;
    this.node = null; // the one that is shown
    this.lastNode = null; // the one that is shown or fades away
    this.values = null; // its argument
    this.view = { blend: 0 }; // 0: predictions, 1: the node
    this.classImage = document.createElement("canvas");
    this.nodeImage = document.createElement("canvas");
    this.request = animation((share) => this.draw(share), MILLISECONDS);
    new ResizeObserver(this.request).observe(canvas);
  }

  setPoints(points) {
    this.points = points;
    this.fields = null;
    this.request();
  }

  setFrame(frame) {
    const given = frame.probabilities.map(decoded);
    this.wanted = given.length === 1 ? [given[0].map((value) => 1 - value), given[0]] : given;
    this.request();
  }

  show(node) {
    this.node = node;
    if (node) {
      this.lastNode = node;
      this.values = decoded(node.map);
    }
    this.request();
  }

  draw(share) {
    if (!this.wanted || !this.points) return false;
    let moving = this.approachFields(share);
    moving = approach(this.view, "blend", this.node ? 1 : 0, share) || moving;
    const { context, width } = sharp(this.canvas);
    context.imageSmoothingQuality = "high";
    paintClasses(this.classImage, this.fields, this.grid);
    context.drawImage(this.classImage, 0, 0, width, width);
    context.globalAlpha = 1 - this.view.blend;
    this.drawBoundary(context, width);
    if (this.lastNode && this.view.blend > 0) {
      context.globalAlpha = this.view.blend;
      paintNode(this.nodeImage, this.lastNode, this.values, this.grid);
      context.drawImage(this.nodeImage, 0, 0, width, width);
      this.drawLevels(context, width);
    }
    context.globalAlpha = 1 - 0.55 * this.view.blend;
    this.drawPoints(context, width);
    context.globalAlpha = 1;
    this.drawAxes(context, width);
    return moving;
  }

  approachFields(share) {
    if (!this.fields || this.fields.length !== this.wanted.length || isCalm()) {
      this.fields = this.wanted.map((own) => own.slice());
      return false;
    }
    let far = 0;
    this.fields.forEach((field, k) => {
      const wanted = this.wanted[k];
      for (let i = 0; i < field.length; i++) {
        const rest = wanted[i] - field[i];
        field[i] += share * rest;
        far = Math.max(far, Math.abs(rest));
      }
    });
    return far > 0.004;
  }

  // For each class the line on which it is as likely as the most likely other one.
  drawBoundary(context, size) {
    context.beginPath();
    const n = this.fields.length;
    for (let k = n === 2 ? 1 : 0; k < n; k++) {
      const lead = (i) => {
        let other = 0;
        for (let j = 0; j < n; j++) if (j !== k) other = Math.max(other, this.fields[j][i]);
        return this.fields[k][i] - other;
      };
      traceLevel(context, lead, this.grid, size);
    }
    context.lineCap = "round";
    context.lineWidth = 2.2;
    context.strokeStyle = css(colors.contour, 0.85);
    context.stroke();
  }

  drawLevels(context, size) {
    context.lineWidth = 1;
    context.strokeStyle = css(colors.contour, 0.22);
    context.beginPath();
    const isRelu = this.lastNode.function === "relu";
    for (const level of LEVELS) if (level > 0 || !isRelu) traceLevel(context, (i) => this.values[i], this.grid, size, level);
    context.stroke();
    context.lineWidth = 1.8;
    context.strokeStyle = css(colors.contour, 0.7);
    context.beginPath();
    traceLevel(context, (i) => this.values[i], this.grid, size); // where a ReLU begins
    context.stroke();
  }

  drawPoints(context, size) {
    const radius = Math.max(2.4, size / 120);
    this.points.places.forEach(([x, y], i) => {
      const color = colors.classes[this.points.labels[i]];
      const heldOut = i >= this.points.n_train;
      context.beginPath();
      context.arc((x / 1000) * size, (1 - y / 1000) * size, radius, 0, 2 * Math.PI);
      context.fillStyle = heldOut ? css(colors.paper, 0.85) : css(color);
      context.fill();
      context.lineWidth = heldOut ? 1.7 : 1;
      context.strokeStyle = heldOut ? css(color) : css(colors.paper, 0.9);
      context.stroke();
    });
  }

  drawAxes(context, size) {
    const { names, window } = this.points;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = css(colors.ink, 0.8);
    const axis = (name, [low, high], y) => {
      const title = `${fitted(context, name, 0.55 * size)} →`;
      for (const [text, align, x] of [[low, "left", 22], [title, "center", size / 2], [high, "right", size - 8]]) {
        context.textAlign = align;
        write(context, text, x, y);
      }
    };
    const range = (values) => values.map((value) => number(value));
    axis(names[0], range(window[0]), size - 7);
    context.save();
    context.translate(0, size); // turned, so that it runs along the left side
    context.rotate(-Math.PI / 2);
    axis(names[1], range(window[1]), 14);
    context.restore();
  }
}

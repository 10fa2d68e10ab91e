// The curve of the loss.

import { colors, css, number, sharp } from "./drawing.js";

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.history = null;
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  setFrame(frame) {
    this.history = frame.history;
    this.draw();
  }

  draw() {
    if (!this.history) return;
    const { context, width, height } = sharp(this.canvas);
    const { epochs, train, test } = this.history;
    const foot = 14;
    const last = Math.max(1, epochs.at(-1));
    const highest = Math.max(0.05, ...train, ...test) * 1.05;
    const x = (epoch) => (epoch / last) * (width - 2) + 1;
    const y = (loss) => (1 - loss / highest) * (height - foot - 2) + 1;
    context.strokeStyle = css(colors.rule);
    context.lineWidth = 1;
    context.beginPath();
    for (const share of [0, 0.5, 1]) {
      context.moveTo(0, y((share * highest) / 1.05));
      context.lineTo(width, y((share * highest) / 1.05));
    }
    context.stroke();
    const line = (values, color, lineWidth) => {
      context.beginPath();
      values.forEach((value, i) => context.lineTo(x(epochs[i]), y(value)));
      context.strokeStyle = color;
      context.lineWidth = lineWidth;
      context.lineJoin = "round";
      context.stroke();
    };
    line(train, css(colors.faint, 0.8), 1.5);
    line(test, css(colors.accent), 2.2);
    context.beginPath();
    context.arc(x(epochs.at(-1)) - 2, y(test.at(-1)), 3, 0, 2 * Math.PI);
    context.fillStyle = css(colors.accent);
    context.fill();
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = css(colors.faint);
    context.fillText("0", 0, height - 2);
    context.textAlign = "right";
    context.fillText(`epoch ${last}`, width, height - 2);
    context.fillText(number(highest / 1.05), width, y(highest / 1.05) + 10);
    context.textAlign = "left";
  }
}
